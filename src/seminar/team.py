"""The door for Python: a recipe -> a run folder; a run folder -> a debate team that answers questions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from seminar import build, rollout
from seminar import config as configuration
from seminar.agents.agent import Team
from seminar.config_mada import MadaConfig, Sampling
from seminar.console import Console
from seminar.errors import ConfigError, RunError
from seminar.methods import mada
from seminar.plan import plan
from seminar.protocols.debate import Debate
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.maths import extract_answer, normalise_answer
from seminar.types import Task, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a team says to a question."""

    text: str | None
    """The most frequent answer of the final round, ties by the first agent; None where nobody gave one."""
    votes: Counter[str]
    """Normalised answer -> agents of the final round that gave it."""
    rounds: tuple[tuple[Turn, ...], ...]
    """Everything that was said, round by round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTeam:
    """A trained debate team in memory; one base model carries all its agents."""

    team: Team
    debate: Debate

    def watch(self, question: str, *, seed: int = 0) -> Iterator[tuple[Turn, ...]]:
        """The debate on a question, round by round as it is spoken. Raises DataError: too long a question."""
        task = Task(id="asked", question=question)
        for turns in rollout.watch(task, self.debate, self.team, seed=(seed,)):
            yield tuple(turns)

    def ask(self, question: str, *, seed: int = 0) -> Answer:
        """Debate a question; the same seed gives the same answer."""
        rounds = tuple(self.watch(question, seed=seed))
        votes = tally(rounds[-1])
        return Answer(text=max(votes, key=votes.__getitem__, default=None), votes=votes, rounds=rounds)


def tally(turns: tuple[Turn, ...]) -> Counter[str]:
    """Normalised answer -> turns that gave it, in order of appearance; without an answer, no vote."""
    found = [extract_answer(turn.text, cut=turn.stop == "length") for turn in turns]
    return Counter(normalise_answer(answer) for answer in found if answer is not None)


def train(recipe: str | Path, *overrides: str, out: str | Path, quiet: bool = True) -> Path:
    """Train a debate team as `recipe` and `key=value` overrides say, into a new run folder; returns its path.

    The same as `seminar train`, which besides resumes. Raises ConfigError: a faulty recipe, or one of another
    method; RunError: `out` is in use, or Ctrl-C asked for a stop (everything so far is saved).
    """
    config = _mada(configuration.load(recipe, overrides), where=str(recipe))
    facts = {"seed": config.seed, "threads": config.base.threads or torch.get_num_threads()}
    with (
        RunFolder.create(Path(out), config=configuration.dump(config), facts=facts) as run,
        Console(quiet=quiet) as console,
        StopRequest(say=console.note) as stop,
    ):
        run.track(config.logging.track)
        run.write("plan.md", plan(config).markdown())
        if not mada.train(config, run=run, console=console, stop=stop):
            raise RunError(
                f"{out}: stopped before the end, all so far is saved. "
                f"Go on with: seminar train {recipe} {' '.join(overrides)} --out {out} --resume"
            )
    return Path(out)


def load(folder: str | Path, *, temperature: float = 0.7) -> TrainedTeam:
    """The trained team of a finished run; `temperature` 0 is greedy. Raises Run-, Config-, ModelError."""
    run = RunFolder.open(Path(folder), write=False)
    config = _mada(configuration.parse(run.config, where=str(folder)), where=str(folder))
    world = build.world(config.base)
    agents = build.load_team(run, config, world, sampling=Sampling(temperature=temperature))
    return TrainedTeam(team=agents, debate=build.debate(config, build.debate_form(config, world.chat)))


def _mada(config: configuration.Config, *, where: str) -> MadaConfig:
    if not isinstance(config, MadaConfig):
        raise ConfigError(
            f"{where}: method is {config.method}; seminar.team knows debate teams (mada). "
            "Use the commands `seminar train` and `seminar ask`."
        )
    return config

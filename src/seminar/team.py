"""The door for Python: a recipe -> a run folder; a run folder -> a team that answers questions."""

import shlex
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from seminar import build, rollout
from seminar import config as configuration
from seminar.agents.agent import Team
from seminar.config_mada import MadaConfig, Sampling
from seminar.console import Console
from seminar.errors import RunError
from seminar.methods import draft_rl, mada
from seminar.plan import plan
from seminar.protocols.debate import Debate
from seminar.protocols.drafts import Drafts
from seminar.rewards.model import RewardModel
from seminar.rewards.reading import Reading, judge, read
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.answers import read_answer, vote_key
from seminar.types import Domain, Episode, Task, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What the judge of a draft team says of its drafts."""

    judge: str
    """R_phi; the peers where it is off; agreement where there are no peers either."""
    reading: Reading
    """The drafts, agent by agent, each with its form, its reviews and the mean of their scores."""
    scores: tuple[float, ...]
    """One a draft."""
    winner: int | None
    """Index of the selected draft; None where no draft keeps the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a team says to a question."""

    text: str | None
    """Debate: the most frequent answer of the final round, ties by the first agent. Drafts: the winner's."""
    votes: Counter[str]
    """Answer in its form for votes -> turns of the final round, or drafts, that gave it."""
    rounds: tuple[tuple[Turn, ...], ...]
    """Everything that was said, round by round."""
    ranking: Ranking | None = None
    """Of the drafts; None after a debate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTeam:
    """A trained team in memory; one base model carries all its agents."""

    team: Team
    protocol: Debate | Drafts
    domain: Domain
    """Of the tasks it learned on: how a bare question is asked and its answers are read."""
    model: RewardModel | None = None
    """R_phi of a draft team."""
    center: bool = False
    """Whether the reviewers' leniency is taken off their scores."""

    def watch(self, question: str | Task, *, seed: int = 0) -> Iterator[tuple[Turn, ...]]:
        """The team at work on a question, round by round as it comes. Raises DataError: too long a question.

        A `Task` brings what a bare question lacks: options, paragraphs, another domain.
        """
        for turns in rollout.watch(self.task(question), self.protocol, self.team, seed=(seed,)):
            yield tuple(turns)

    def ask(self, question: str | Task, *, seed: int = 0) -> Answer:
        """Put a question; the same seed gives the same answer."""
        return self.conclude(question, tuple(self.watch(question, seed=seed)))

    def conclude(self, question: str | Task, rounds: Sequence[tuple[Turn, ...]]) -> Answer:
        """The answer that follows from all that `watch` gave."""
        task, protocol = self.task(question), self.protocol
        if isinstance(protocol, Debate):
            votes = tally(task, rounds[-1])
            text = max(votes, key=votes.__getitem__, default=None)
            return Answer(text=text, votes=votes, rounds=tuple(rounds))
        said = Episode(task=task, turns=tuple(turn for turns in rounds for turn in turns))
        reading = read(said, protocol, center=self.center)
        (scores,) = judge(self.model)([reading])
        winner = reading.best(scores)
        name = "R_phi" if self.model is not None else "the peers" if protocol.peers else "agreement"
        return Answer(
            text=None if winner is None else reading.candidates[winner].draft.answer,
            votes=tally(task, [candidate.turn for candidate in reading.candidates]),
            rounds=tuple(rounds),
            ranking=Ranking(judge=name, reading=reading, scores=tuple(scores), winner=winner),
        )

    def task(self, question: str | Task, *, choices: Sequence[str] = ()) -> Task:
        """A bare question as a task of the domain the team learned, of choice where `choices` are given."""
        if isinstance(question, Task):
            return question
        domain = "choice" if choices else self.domain
        return Task(id="asked", question=question, domain=domain, choices=tuple(choices))


def tally(task: Task, turns: Sequence[Turn]) -> Counter[str]:
    """Answer in its form for votes -> turns that gave it, in order of appearance; no answer, no vote."""
    found = [read_answer(task, turn.text, cut=turn.stop == "length") for turn in turns]
    return Counter(vote_key(task, answer) for answer in found if answer is not None)


def train(recipe: str | Path, *overrides: str, out: str | Path, quiet: bool = True) -> Path:
    """Train a team as `recipe` and `key=value` overrides say, into a new run folder; returns its path.

    Raises ConfigError: a faulty recipe; RunError: `out` is in use, or Ctrl-C asked for a stop (everything so
    far is saved, and `seminar train ... --resume` goes on).
    """
    if not carry_out(configuration.load(recipe, overrides), Path(out), quiet=quiet):
        raise RunError(
            f"{out}: stopped before the end, all so far is saved. "
            f"Go on with: {again(str(recipe), overrides, Path(out))}"
        )
    return Path(out)


def again(recipe: str, overrides: Sequence[str], out: Path) -> str:
    """The command line that goes on with a stopped run."""
    return shlex.join(["seminar", "train", recipe, *overrides, "--out", str(out), "--resume"])


def carry_out(
    config: configuration.Config, folder: Path, *, resume: bool = False, quiet: bool = False
) -> bool:
    """Train into `folder` as `config` says, or go on there; False when Ctrl-C asked for a stop."""
    numbers = plan(config)
    run = _reopen(folder, config) if resume else _create(folder, config)
    with run, Console(quiet=quiet) as console, StopRequest(say=console.note) as stop:
        run.track(config.logging.track)
        run.write("plan.md", numbers.markdown())
        console.note(f"{folder}: {run.progress()}" if resume else numbers.summary())
        if isinstance(config, MadaConfig):
            return mada.train(config, run=run, console=console, stop=stop)
        return draft_rl.train(config, run=run, console=console, stop=stop)


def load(folder: str | Path, *, temperature: float = 0.7) -> TrainedTeam:
    """The trained team of a finished run. Raises Run-, Config-, ModelError.

    `temperature` is that of a debate, 0 is greedy; drafts and reviews have those of their recipe.
    """
    run = RunFolder.open(Path(folder), write=False)
    config = configuration.parse(run.config, where=str(folder))
    world = build.world(config.base)
    domain = build.domain(config)
    if isinstance(config, MadaConfig):
        team = build.load_team(run, config, world, sampling=Sampling(temperature=temperature))
        debate = build.debate(config, build.debate_form(config, world.chat))
        return TrainedTeam(team=team, protocol=debate, domain=domain)
    team, model = build.load_drafters(run, config, world)
    return TrainedTeam(
        team=team,
        protocol=build.drafts(config),
        domain=domain,
        model=model,
        center=config.drafts.center_reviewers,
    )


def _create(folder: Path, config: configuration.Config) -> RunFolder:
    facts = {"seed": config.seed, "threads": config.base.threads or torch.get_num_threads()}
    return RunFolder.create(folder, config=configuration.dump(config), facts=facts)


def _reopen(folder: Path, config: configuration.Config) -> RunFolder:
    run = RunFolder.open(folder, write=True)
    run.require_config(configuration.dump(config))
    for name, (then, now) in run.changed_versions().items():
        warnings.warn(
            f"{folder} began with {name} {then}, this is {now}: the end may differ in the last bits.",
            stacklevel=3,
        )
    return run

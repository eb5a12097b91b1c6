"""`seminar ask`: a question and a run folder in, the team at work on the screen, its answer at the end."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from seminar import build, rollout
from seminar import config as configuration
from seminar.config_draft import DraftRlConfig
from seminar.config_mada import MadaConfig, Sampling
from seminar.console import Console
from seminar.protocols.drafts import REVIEWER
from seminar.rewards.reading import judge, read
from seminar.runlog import RunFolder
from seminar.tasks.maths import extract_answer, normalise_answer
from seminar.types import Episode, Task, Turn


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    team: Annotated[Path, typer.Option(help="Run folder of a trained team.")],
    temperature: Annotated[
        float, typer.Option(min=0, max=2, help="Sampling temperature of a debate; 0 is greedy.")
    ] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling.")] = 0,
) -> None:
    """Put a question to a trained team and watch it work."""
    run = RunFolder.open(team, write=False)
    config = configuration.parse(run.config, where=str(team))
    task = Task(id="asked", question=question)
    if isinstance(config, MadaConfig):
        _debate(run, config, task, sampling=Sampling(temperature=temperature), seed=(seed,))
    else:
        _draft(run, config, task, seed=(seed,))


def _debate(
    run: RunFolder, config: MadaConfig, task: Task, *, sampling: Sampling, seed: tuple[int, ...]
) -> None:
    """Every round's answers as they come, then the vote of the last round."""
    world = build.world(config.base)
    agents = build.load_team(run, config, world, sampling=sampling)
    protocol = build.debate(config, build.debate_form(config, world.chat))
    console = Console()
    turns: list[Turn] = []
    for turns in rollout.watch(task, protocol, agents, seed=seed):
        console.note(f"── round {turns[0].round + 1}")
        for turn in turns:
            console.note(f"{turn.agent} ({len(turn.completion_ids)} tokens): {turn.text.strip()}")
    answers = Counter(
        normalise_answer(a) for t in turns if (a := extract_answer(t.text, cut=t.stop == "length"))
    )
    tally = ", ".join(f"{answer} x {count}" for answer, count in answers.most_common()) or "no answer"
    console.note(f"── final round says: {tally}")


def _draft(run: RunFolder, config: DraftRlConfig, task: Task, *, seed: tuple[int, ...]) -> None:
    """Every draft and review as they come, then what R_phi says of each draft, and the winner."""
    world = build.world(config.base)
    team, model = build.load_drafters(run, config, world)
    protocol = build.drafts(config)
    console = Console()
    played: list[Turn] = []
    for turns in rollout.watch(task, protocol, team, seed=seed):
        reviews = turns[0].role == REVIEWER
        console.note("── reviews" if reviews else f"── draft {turns[0].round + 1}")
        for turn in turns:
            about = (
                f"of {turn.notes['target']}"
                if reviews
                else f"{turn.notes['strategy']}, T {turn.temperature:g}"
            )
            console.note(f"{turn.agent} ({about}):\n{turn.text.strip()}")
        played += turns
    reading = read(Episode(task=task, turns=tuple(played)), protocol, center=config.drafts.center_reviewers)
    (scores,) = judge(model)([reading])
    console.note("── scores of " + ("R_phi" if model else "the peers" if protocol.peers else "agreement"))
    for candidate, score in zip(reading.candidates, scores, strict=True):
        peer = None if candidate.peer is None else candidate.peer.overall
        said = [
            f"{score:.3f}",
            "no readable review" if peer is None else f"peers {peer:.2f}",
            candidate.draft.fault or f"answer {candidate.draft.answer}",
        ]
        console.note(f"{candidate.turn.agent} draft {candidate.turn.round + 1}: {', '.join(said)}")
    winner = reading.best(scores)
    if winner is None:
        console.note("── no draft keeps the form, so there is no winner")
    else:
        best = reading.candidates[winner]
        console.note(f"── winner: {best.turn.agent} draft {best.turn.round + 1} says {best.draft.answer}")

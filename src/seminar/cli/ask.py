"""`seminar ask`: a question and a run folder in, the team at work on the screen, its answer at the end."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seminar.console import Console
from seminar.types import Turn

if TYPE_CHECKING:
    from seminar.team import Answer, Ranking


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    folder: Annotated[Path, typer.Option("--team", help="Run folder of a trained team.")],
    choice: Annotated[
        list[str] | None, typer.Option(help="An option of a multiple-choice question; repeat it.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(min=0, max=2, help="Of a debate, 0 is greedy; drafts have those of the recipe.")
    ] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling.")] = 0,
) -> None:
    """Put a question to a trained team and watch it work."""
    from seminar import team  # loads torch

    console = Console()
    trained = team.load(folder, temperature=temperature)
    task = trained.task(question, choices=choice or ())
    rounds: list[tuple[Turn, ...]] = []
    for turns in trained.watch(task, seed=seed):
        console.note(f"── {_title(turns[0])}")
        rounds.append(turns)
        names = {turn.key: _name(turn) for spoken in rounds for turn in spoken}
        for turn in turns:
            console.note(f"{turn.agent} ({_about(turn, names)}):\n{turn.text.strip()}")
    for line in _verdict(trained.conclude(task, rounds)):
        console.note(line)


def _title(turn: Turn) -> str:
    if turn.role == "reviewer":
        return "reviews"
    return f"draft {turn.round + 1}" if turn.role == "drafter" else f"round {turn.round + 1}"


def _about(turn: Turn, names: Mapping[str, str]) -> str:
    """What tells a turn from its siblings: whom a review judges, how a draft was sampled, its length."""
    facts = [f"of {names[turn.notes['target']]}"] if "target" in turn.notes else []
    if "strategy" in turn.notes:
        facts += [f"{turn.notes['strategy'] or 'no hint'}, T {turn.temperature:g}"]
        facts += [f"attempt {turn.notes['attempt'] + 1}"] if turn.notes["attempt"] else []
    return ", ".join([*facts, f"{len(turn.completion_ids)} tokens"])


def _verdict(answer: "Answer") -> Iterator[str]:
    """Scores and winner of drafts, then how the answers divide."""
    if answer.ranking is not None:
        yield from _scores(answer.ranking)
    tally = ", ".join(f"{text} x {count}" for text, count in answer.votes.most_common()) or "no answer"
    if answer.ranking is None:
        yield f"── final round says: {tally}"
        return
    yield f"── vote of all drafts says: {tally}"
    yield f"── {_winner(answer.ranking)}"


def _scores(ranking: "Ranking") -> Iterator[str]:
    yield f"── scores of {ranking.judge}"
    for candidate, score in zip(ranking.reading.candidates, ranking.scores, strict=True):
        said = [f"{score:.3f}", candidate.draft.fault or f"answer {candidate.draft.answer}"]
        if candidate.peer is not None:
            overall = candidate.peer.overall
            said.insert(1, "no readable review" if overall is None else f"peers {overall:.2f}")
        yield f"{_name(candidate.turn)}: {', '.join(said)}"


def _winner(ranking: "Ranking") -> str:
    if ranking.winner is None:
        return "no draft keeps the form, so there is no winner"
    best = ranking.reading.candidates[ranking.winner]
    return f"winner: {_name(best.turn)} says {best.draft.answer}"


def _name(turn: Turn) -> str:
    return f"{turn.agent} draft {turn.round + 1}"

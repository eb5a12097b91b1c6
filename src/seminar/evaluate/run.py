"""A team, its protocol and tasks -> scored episodes, chunk by chunk, resumable; the only place that evaluates
with a model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from seminar import rollout
from seminar.agents.agent import Team, stable_hash
from seminar.console import Console
from seminar.evaluate.metrics import Scored, scored
from seminar.protocols.base import Protocol
from seminar.rewards.base import Grader
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.types import Episode, Failure, Task, Turn, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One team to evaluate."""

    name: str
    """Name of its table in the run folder."""
    team: Team
    protocol: Protocol


def play_all(
    entry: Entry,
    tasks: Sequence[Task],
    *,
    repeats: int,
    seed: int,
    chunk: int,
    grader: Grader,
    run: RunFolder,
    console: Console,
    stop: StopRequest,
) -> list[Scored] | None:
    """Play every task `repeats` times; None when a stop was asked for.

    Repeat r of a task draws the same random numbers for every entry in which its agents bear the same names,
    so teams compare pairwise. Complete chunks of a killed run are read back from the table, not played again.
    """
    plan = [(r, task) for r in range(repeats) for task in tasks]
    parts = [plan[i : i + chunk] for i in range(0, len(plan), chunk)]
    with run.table(f"evaluation-{entry.name}") as table:
        console.stage(f"evaluate {entry.name}", total=len(parts), done=table.num_chunks)
        for number in range(table.num_chunks, len(parts)):
            rows: list[dict[str, Any]] = []
            for r in sorted({r for r, _ in parts[number]}):
                chosen = [task for repeat, task in parts[number] if repeat == r]
                episodes = rollout.play(
                    chosen, entry.protocol, entry.team, seed=(seed, stable_hash("evaluation"), r)
                )
                graded = rollout.verdicts(episodes, grader)
                rows += [_row(r, e, g) for e, g in zip(episodes, graded, strict=True)]
            table.append(rows)
            console.step(number + 1, {"accuracy": _accuracy(rows)})
            if stop.requested:
                return None
        by_id = {(task.source, task.id): task for task in tasks}
        return [_scored(row, by_id) for row in table.rows()]


def _row(repeat: int, episode: Episode, graded: dict[str, Verdict]) -> dict[str, Any]:
    """One line of the table; prompts and log-probabilities are left out, they can be made again."""
    turns = [asdict(replace(t, prompt_ids=(), engine_logprobs=())) for t in episode.turns]
    return {
        "repeat": repeat,
        "source": episode.task.source,
        "task": episode.task.id,
        "failure": None if episode.failure is None else asdict(episode.failure),
        "turns": turns,
        "verdicts": {key: asdict(verdict) for key, verdict in graded.items()},
    }


def _scored(row: dict[str, Any], by_id: dict[tuple[str, str], Task]) -> Scored:
    turns = tuple(_turn(fields) for fields in row["turns"])
    failure = None if row["failure"] is None else Failure(**row["failure"])
    episode = Episode(task=by_id[row["source"], row["task"]], turns=turns, failure=failure)
    verdicts = {key: Verdict(**value) for key, value in row["verdicts"].items()}
    return scored(episode, verdicts, seed=row["repeat"])


def _turn(fields: dict[str, Any]) -> Turn:
    tuples = ("prompt_ids", "completion_ids", "engine_logprobs", "saw")
    values: dict[str, Any] = {name: tuple(v) if name in tuples else v for name, v in fields.items()}
    return Turn(**values)


def _accuracy(rows: Sequence[dict[str, Any]]) -> float:
    verdicts = [v["correct"] for row in rows for v in row["verdicts"].values()]
    return sum(verdicts) / len(verdicts) if verdicts else float("nan")

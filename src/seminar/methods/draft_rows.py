"""What an iteration of DRAFT-RL played and scored -> means for metrics.jsonl, rows that a person can read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seminar.rewards.reading import Candidate, Reading
from seminar.train import trainer
from seminar.types import Group, Score


def summary(rewards: Sequence[Sequence[Score | None]]) -> dict[str, float]:
    """Mean observed reward and of each of its parts over the drafts that have it."""
    scores = [score for row in rewards for score in row if score is not None]
    names = dict.fromkeys(name for score in scores for name in score.parts)
    parts = {
        f"reward/{name}": float(np.mean([s.parts[name] for s in scores if name in s.parts])) for name in names
    }
    total = float(np.mean([s.total for s in scores])) if scores else float("nan")
    return {
        "reward": total,
        **parts,
        "unscored": float(sum(score is None for row in rewards for score in row)),
    }


def rows(
    stage: str,
    step: int,
    readings: Sequence[Reading],
    rewards: Sequence[Sequence[Score | None]],
    judged: Sequence[Sequence[float]],
    credit: Mapping[tuple[int, int], float],
    winners: Sequence[int | None],
) -> list[dict[str, Any]]:
    """One readable row a question and agent: drafts with parts and R_phi, their reviews, the winner."""
    found: list[dict[str, Any]] = []
    for q, reading in enumerate(readings):
        for agent in dict.fromkeys(c.turn.agent for c in reading.candidates):
            places = reading.of(agent)
            candidates = [reading.candidates[i] for i in places]
            group = Group(
                task=reading.task,
                agent=agent,
                role=candidates[0].turn.role,
                round=0,
                turns=tuple(c.turn for c in candidates),
                scores=tuple(rewards[q][i] for i in places),
            )
            values = np.array([credit.get((q, i), np.nan) for i in places])
            (row,) = trainer.episode_rows(stage, step, [group], [values])
            for sample, i, candidate in zip(row["samples"], places, candidates, strict=True):
                sample |= _draft_facts(candidate) | {"judge": judged[q][i], "winner": i == winners[q]}
            found.append(row)
    return found


def _draft_facts(candidate: Candidate) -> dict[str, Any]:
    return {
        "strategy": candidate.turn.notes["strategy"],
        "temperature": candidate.turn.temperature,
        "fault": candidate.draft.fault,
        "reviews": [
            None if review is None else {"overall": review.overall, "feedback": review.feedback}
            for review in candidate.reviews
        ],
    }

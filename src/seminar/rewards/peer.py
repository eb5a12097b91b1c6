"""Reviewers' turns -> peer scores by draft: mean over reviewers, missing reviews counted, leniency removed.

DRAFT-RL (arXiv 2511.20468, eq. 5); the mean over reviewers is ours, the paper names no aggregate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seminar.protocols.drafts import REVIEWER
from seminar.tasks.review_form import CRITERIA, OVERALL, Review, parse_review
from seminar.types import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One reviewer's review of one draft."""

    reviewer: str
    target: str
    """Key of the draft's turn."""
    review: Review | None
    """None: unreadable, that is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What the reviewers of one draft say together; None where nobody said it."""

    overall: float | None
    scores: Mapping[str, float | None]
    """Mean of each criterion over those who gave it."""
    given: int
    """Readable reviews."""
    missing: int
    """Unreadable reviews: no part of any mean."""


def opinions(turns: Sequence[Turn]) -> list[Opinion]:
    """The reviews among an episode's turns, in order."""
    return [
        Opinion(reviewer=turn.agent, target=turn.notes["target"], review=parse_review(turn.text))
        for turn in turns
        if turn.role == REVIEWER
    ]


def peer_scores(found: Sequence[Opinion]) -> dict[str, Peer]:
    """Mean over the reviewers of each draft, by the draft's key."""
    by_target: dict[str, list[Review | None]] = {}
    for opinion in found:
        by_target.setdefault(opinion.target, []).append(opinion.review)
    return {target: _peer(reviews) for target, reviews in by_target.items()}


def missing_share(found: Sequence[Opinion]) -> dict[str, tuple[int, int]]:
    """Reviewer -> (missing reviews, all reviews)."""
    counts: dict[str, tuple[int, int]] = {}
    for opinion in found:
        missing, total = counts.get(opinion.reviewer, (0, 0))
        counts[opinion.reviewer] = (missing + (opinion.review is None), total + 1)
    return counts


def center_reviewers(found: Sequence[Opinion]) -> list[Opinion]:
    """The same reviews without each reviewer's leniency, score by score, clipped to [0, 1].

    Leniency is told apart from quality by drafts that several reviewers read; between reviewers who share no
    draft (a team of two) it cannot be told and nothing is removed.
    """
    shifts = {
        name: leniency([(o.reviewer, o.target, _score(o.review, name)) for o in found])
        for name in (OVERALL, *CRITERIA)
    }
    return [
        opinion if opinion.review is None else _shifted(opinion, opinion.review, shifts) for opinion in found
    ]


def leniency(scores: Sequence[tuple[str, str, float | None]]) -> dict[str, float]:
    """By how much each reviewer scores above the others on the same drafts, of (reviewer, target, score).

    Least squares for score = quality of the target + leniency of the reviewer. The mean over each target's
    reviewers takes the quality out; the solution of least norm sums to 0 within reviewers linked by common
    targets. Worked example: a says .9 and .7 where b says .5 and .3 -> a +.2, b -.2.
    """
    known = [(reviewer, target, score) for reviewer, target, score in scores if score is not None]
    if not known:
        return {}
    names, who = np.unique([reviewer for reviewer, _, _ in known], return_inverse=True)
    _, what = np.unique([target for _, target, _ in known], return_inverse=True)
    columns = np.column_stack([np.eye(len(names))[who], [score for _, _, score in known]])
    sums = np.zeros((what.max() + 1, columns.shape[1]))
    np.add.at(sums, what, columns)
    rest = columns - (sums / np.bincount(what)[:, None])[what]
    solution = np.linalg.lstsq(rest[:, :-1], rest[:, -1], rcond=None)[0]
    return {str(name): float(value) for name, value in zip(names, solution, strict=True)}


def review_reward(review: Review | None, *, right: bool) -> float:
    """Agreement of a review with the verified outcome: 1 - (overall - outcome)^2; a missing one gets 0.

    The quadratic score is proper (Brier 1950): a reviewer does best by saying how likely the draft is right.
    """
    return 0.0 if review is None else 1.0 - (review.overall - float(right)) ** 2


def review_rewards(turns: Sequence[Turn], *, right: Mapping[str, bool]) -> dict[str, float]:
    """Reward of each review of one reviewer on one question, less their mean, by the review's key.

    `right` maps the key of a draft to its verified outcome; a review of another draft has no reward. The mean
    takes out how hard the question was to judge. Worked example: .9 for a right draft and .9 for a wrong one
    earn .99 and .19, which is +.4 and -.4.
    """
    earned = {
        turn.key: review_reward(parse_review(turn.text), right=right[turn.notes["target"]])
        for turn in turns
        if turn.notes["target"] in right
    }
    mean = sum(earned.values()) / max(1, len(earned))
    return {key: reward - mean for key, reward in earned.items()}


def _peer(reviews: Sequence[Review | None]) -> Peer:
    given = [review for review in reviews if review is not None]
    return Peer(
        overall=_mean([review.overall for review in given]),
        scores={name: _mean([review.scores[name] for review in given]) for name in CRITERIA},
        given=len(given),
        missing=len(reviews) - len(given),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _score(review: Review | None, name: str) -> float | None:
    if review is None:
        return None
    return review.overall if name == OVERALL else review.scores[name]


def _shifted(opinion: Opinion, review: Review, shifts: Mapping[str, Mapping[str, float]]) -> Opinion:
    def moved(name: str, score: float) -> float:
        return min(1.0, max(0.0, score - shifts[name][opinion.reviewer]))

    scores = {name: None if score is None else moved(name, score) for name, score in review.scores.items()}
    return replace(opinion, review=replace(review, overall=moved(OVERALL, review.overall), scores=scores))

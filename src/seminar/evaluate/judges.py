"""Scores of drafts and what the drafts turned out to be -> how far their judge can be trusted. No torch.

A judge is the reward model or the peers. Agreement between the two says nothing about truth, so both are held
against the verified outcome. Every function takes one sequence a question, of one number a draft.
"""

from collections.abc import Sequence
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

BINS = 10
"""Equal bins of the calibration error."""


class Trust(NamedTuple):
    """How far a judge can be trusted; NaN where too little is known to tell."""

    auc: float
    """Chance that a right draft of a question is scored above a wrong one; mean over questions with both."""
    auc_questions: int
    """Questions with right and wrong drafts: the n of `auc`."""
    truth: float
    """Pearson correlation with the verified outcome over all drafts; hardness of questions counts in it."""
    peers: float
    """Pearson correlation with the peer scores (the paper reports .89, of what it does not say)."""
    calibration: float
    """Expected calibration error."""
    drafts: int
    """Drafts with a score: the n of `truth` and `calibration`."""


def trust(
    scores: Sequence[Sequence[float | None]],
    *,
    right: Sequence[Sequence[bool]],
    peers: Sequence[Sequence[float | None]],
) -> Trust:
    """All measures of one judge; a draft it did not score (None) takes no part."""
    kept = [
        [(s, r, p) for s, r, p in zip(*question, strict=True) if s is not None]
        for question in zip(scores, right, peers, strict=True)
    ]
    aucs = question_aucs([[s for s, _, _ in q] for q in kept], [[r for _, r, _ in q] for q in kept])
    flat = [draft for question in kept for draft in question]
    both = [(s, p) for s, _, p in flat if p is not None]
    return Trust(
        auc=_mean(aucs),
        auc_questions=int((~np.isnan(aucs)).sum()),
        truth=correlation([s for s, _, _ in flat], [float(r) for _, r, _ in flat]),
        peers=correlation([s for s, _ in both], [p for _, p in both]),
        calibration=calibration_error([s for s, _, _ in flat], [r for _, r, _ in flat]),
        drafts=len(flat),
    )


def within_question_auc(scores: Sequence[Sequence[float]], right: Sequence[Sequence[bool]]) -> float:
    """Mean over questions of the chance that a right draft is scored above a wrong one; ties count half.

    Unlike a pooled AUC it gives nothing for telling hard questions from easy ones. NaN where no question has
    both kinds of draft.
    """
    return _mean(question_aucs(scores, right))


def question_aucs(scores: Sequence[Sequence[float]], right: Sequence[Sequence[bool]]) -> NDArray[np.float64]:
    """One AUC a question (Mann-Whitney U over the number of pairs); NaN without both kinds of draft."""
    return np.array([_auc(s, r) for s, r in zip(scores, right, strict=True)], dtype=np.float64)


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's r; NaN for fewer than two pairs or where one side never changes."""
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return nan
    return float(stats.pearsonr(a, b).statistic)


def calibration_error(scores: Sequence[float], right: Sequence[bool]) -> float:
    """Mean over drafts of |mean score - share right| in their bins (Guo et al. 2017); NaN without drafts."""
    if not len(scores):
        return nan
    score, truth = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.float64)
    bins = np.minimum((score * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=score - truth, minlength=BINS)
    return float(np.abs(gaps).sum() / len(score))


def _auc(scores: Sequence[float], right: Sequence[bool]) -> float:
    good = np.asarray(right, dtype=bool)
    pairs = int(good.sum()) * int((~good).sum())
    if pairs == 0:
        return nan
    ranks = stats.rankdata(scores)
    wins = ranks[good].sum() - good.sum() * (good.sum() + 1) / 2
    return float(wins / pairs)


def _mean(values: NDArray[np.float64]) -> float:
    known = [float(value) for value in values if not isnan(value)]
    return sum(known) / len(known) if known else nan

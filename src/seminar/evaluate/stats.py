"""Observations (numbers, each with the task it belongs to) -> estimates with n, 95 % interval and p-value.

numpy and scipy only. Observations of one task are not independent: `clusters` names the task of each of them.
Too little to tell (fewer than two tasks, or no spread where one is needed) gives NaN, never 0.

Tables show the cluster-robust t interval, not the bootstrap: it needs no seed, equals the textbook paired t
interval where each task has one observation, and holds with few tasks. Simulated differences of two debate
teams were covered by t and percentile bootstrap in 95.5 and 89.5 % of draws with 10 tasks, in 95.1 and 91.8 %
with 20, alike from 200 on. The bootstrap stands beside it as a check that leans on no normality.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seminar.errors import DataError

LEVEL = 0.95
"""Confidence level of every interval in this project."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, a rate or a difference, with all that is needed to judge it."""

    value: float
    low: float
    """Lower end of the 95 % interval; NaN where it cannot be told."""
    high: float
    se: float
    """Standard error of `value`; NaN where it cannot be told, 0 where nothing varies."""
    n: int
    """Observations; pairs for a paired difference."""
    clusters: int
    """Independent units among them: tasks, or runs for a test over seeds."""
    method: str
    """How the interval was made."""
    p: float | None = None
    """Two-sided p-value against 0; None where no test is meant."""
    missing: int = 0
    """Observations left out because they had no value."""
    seeds: tuple[int, ...] = ()
    """Sampling seeds under which the observations were made."""

    def times(self, factor: float) -> "Estimate":
        """The same estimate in another unit; factor > 0."""
        scaled = {name: getattr(self, name) * factor for name in ("value", "low", "high", "se")}
        return replace(self, **scaled)


class McNemar(NamedTuple):
    """Tasks that only one of two teams gets right, and the p-value that both ways are equally likely."""

    only_first: int
    only_second: int
    p: float


def mean_interval(values: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Mean and cluster-robust t interval; without clusters the ordinary t interval.

    With C clusters: m = sum x / N; V = C/(C-1) * sum_c (sum_{i in c} (x_i - m))^2 / N^2; m -+ t(C-1) sqrt(V)
    (Liang and Zeger 1986; the intercept of a regression with CR1 errors).
    """
    sums_C, sizes_C = _cluster_sums(values, clusters)
    count, n = len(sums_C), len(values)
    mean = float(sums_C.sum()) / n if n else nan
    residuals_C = sums_C - mean * sizes_C
    residuals_C[np.abs(residuals_C) <= 1e-12 * np.abs(sums_C).max(initial=0)] = 0.0  # rounding is no spread
    se = sqrt(count / (count - 1) * float(np.sum(residuals_C**2))) / n if count >= 2 else nan
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * se if se > 0 else nan
    low, high = mean - half, mean + half
    return Estimate(value=mean, low=low, high=high, se=se, n=n, clusters=count, method="t, clustered")


def rate_interval(values: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Mean of values in [0, 1] and its Wilson interval, which stays inside [0, 1].

    One right-or-wrong value a cluster: the textbook interval. Otherwise Wilson at the effective number of
    observations p(1-p)/V (z/t(C-1))^2, V of `mean_interval` less its C/(C-1) (Dean and Pagano 2015). V = 0
    counts as one observation a cluster: safe, as nothing in [0, 1] varies more than right and wrong.
    """
    if not all(0 <= value <= 1 for value in values):
        raise DataError(
            f"rate_interval: values from {min(values)} to {max(values)}; a rate needs numbers in [0, 1]. "
            "For other numbers use mean_interval."
        )
    estimate = mean_interval(values, clusters=clusters)
    rate, variance, count = estimate.value, estimate.se**2, estimate.clusters
    one_binary_each = count == len(values) and set(values) <= {0, 1}
    effective = float(count)
    if variance > 0 and not one_binary_each:
        shrink = stats.norm.ppf((1 + LEVEL) / 2) / stats.t.ppf((1 + LEVEL) / 2, count - 1)
        effective = float(rate * (1 - rate) / (variance * (count - 1) / count) * shrink**2)
    low, high = _wilson(rate, effective) if count >= 2 else (nan, nan)
    return replace(estimate, low=low, high=high, method="Wilson, clustered")


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson score interval of successes out of n independent trials (Wilson 1927); NaN for n < 2."""
    return _wilson(successes / n, n) if n >= 2 else (nan, nan)


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """Mean of first[i] - second[i], the interval of `mean_interval`, and the p-value of its t test."""
    estimate = mean_interval(_differences(first, second), clusters=clusters)
    t = abs(estimate.value) / estimate.se if estimate.se > 0 else nan
    return replace(estimate, p=float(2 * stats.t.sf(t, estimate.clusters - 1)), method="paired t, clustered")


def bootstrap_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int,
    resamples: int = 10_000,
) -> Estimate:
    """`paired_difference` with the percentile interval of a bootstrap that redraws whole clusters; no p."""
    sums_C, sizes_C = _cluster_sums(_differences(first, second), clusters)
    estimate = paired_difference(first, second, clusters=clusters)
    estimate = replace(estimate, p=None, method=f"paired bootstrap, clustered, seed {seed}")
    if not estimate.se > 0:
        return estimate
    interval = stats.bootstrap(
        (sums_C, sizes_C),
        lambda sums, sizes, axis: sums.sum(axis=axis) / sizes.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, 1_000_000 // len(sums_C)),
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return replace(estimate, low=float(interval.low), high=float(interval.high))


def macro_mean(estimates: Sequence[Estimate]) -> Estimate:
    """Unweighted mean over independent task sets, each estimated on its own tasks; of one set, its estimate.

    Squared distances from value to interval end add up, each end on its own, so that Wilson intervals keep
    their skew (Zou and Donner 2008). One part whose interval cannot be told makes the whole NaN.
    """
    assert estimates, "a macro mean needs at least one task set"
    if len(estimates) == 1:
        return estimates[0]
    num_sets = len(estimates)
    value = sum(part.value for part in estimates) / num_sets
    return Estimate(
        value=value,
        low=value - sqrt(sum((part.value - part.low) ** 2 for part in estimates)) / num_sets,
        high=value + sqrt(sum((part.high - part.value) ** 2 for part in estimates)) / num_sets,
        se=sqrt(sum(part.se**2 for part in estimates)) / num_sets,
        n=sum(part.n for part in estimates),
        clusters=sum(part.clusters for part in estimates),
        method=f"mean of {num_sets} task sets",
        missing=sum(part.missing for part in estimates),
        seeds=tuple(sorted({seed for part in estimates for seed in part.seeds})),
    )


def welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Mean of first minus mean of second, unpaired, variances not assumed equal (Welch 1947).

    For one number a run, e.g. each seed's macro mean. It asks whether other seeds would repeat the difference
    on *these* tasks; whether other tasks would is the question of `paired_difference`.
    """
    runs = len(first) + len(second)
    value = float(np.mean(first) - np.mean(second)) if len(first) and len(second) else nan
    unknown = Estimate(value=value, low=nan, high=nan, se=nan, n=runs, clusters=runs, method="Welch t", p=nan)
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return unknown
    result = stats.ttest_ind(first, second, equal_var=False)
    low, high = result.confidence_interval(LEVEL)
    se = sqrt(np.var(first, ddof=1) / len(first) + np.var(second, ddof=1) / len(second))
    return replace(unknown, low=float(low), high=float(high), se=se, p=float(result.pvalue))


def pair_matrix(runs: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], Estimate]:
    """`welch` for every pair of models in the order given: (first, second) -> first minus second."""
    return {(first, second): welch(runs[first], runs[second]) for first, second in combinations(runs, 2)}


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """Exact McNemar test (1947) on right/wrong outcomes of the same tasks, one a task; all alike: p = 1."""
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    discordant = only_first + only_second
    p = float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return McNemar(only_first, only_second, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm (1979) for the family given; NaN stays NaN and is no member of it."""
    order = sorted((p, i) for i, p in enumerate(p_values) if not isnan(p))
    adjusted = [nan] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[i] = largest
    return adjusted


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """p-values times the size of the family, at most 1; NaN stays NaN and is no member of it."""
    tests = sum(not isnan(p) for p in p_values)
    return [p if isnan(p) else min(1.0, p * tests) for p in p_values]


def _differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    if len(first) != len(second):
        raise DataError(
            f"paired difference: {len(first)} values against {len(second)}; both sides need as many. "
            "Match them by task and seed first."
        )
    return [a - b for a, b in zip(first, second, strict=True)]


def _cluster_sums(values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[_Floats, _Floats]:
    """Sum and number of observations of each cluster."""
    labels = range(len(values)) if clusters is None else clusters
    infinite = int(np.sum(~np.isfinite(values)))
    if len(labels) != len(values) or infinite:
        raise DataError(
            f"interval: {len(values)} values ({infinite} not finite), {len(labels)} cluster labels; each "
            "value must be finite and have one label. Leave out, and count, what has no value."
        )
    index: dict[Hashable, int] = {}
    place = np.array([index.setdefault(label, len(index)) for label in labels], dtype=np.intp)
    return np.bincount(place, weights=values).astype(np.float64), np.bincount(place).astype(np.float64)


def _wilson(rate: float, n: float) -> tuple[float, float]:
    """Wilson interval for an effective number of observations, which need not be whole."""
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    variance = rate * (1 - rate) / n + z**2 / (4 * n**2)
    centre, scale = rate + z**2 / (2 * n), 1 + z**2 / n
    return max(0.0, (centre - z * sqrt(variance)) / scale), min(1.0, (centre + z * sqrt(variance)) / scale)

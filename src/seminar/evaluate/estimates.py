"""Scored episodes and a measure -> values by task and seed -> rates, means and paired differences. No torch.

Values that are None (the episode failed, the measure has no value) are left out and counted in `missing`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from seminar.errors import DataError
from seminar.evaluate import stats
from seminar.evaluate.metrics import Measure, Scored, consensus, cut, first_round, improved, tokens, worsened
from seminar.evaluate.stats import Estimate


class Play(NamedTuple):
    """Which play of which task: what pairs two teams; source and task are the cluster."""

    source: str
    task: str
    seed: int


Values = Mapping[Play, float | None]
"""A measure's value of every play."""


class Changes(NamedTuple):
    """What the later rounds did to the first round's consensus; value * n is the numerator of each rate."""

    improved: Estimate
    """Wrong before and right after, of all plays."""
    improved_of_wrong: Estimate
    """The same, of the plays with a wrong consensus."""
    worsened: Estimate
    """Right before and wrong after, of all plays."""
    worsened_of_right: Estimate
    """The same, of the plays with a right consensus."""


def values(episodes: Iterable[Scored], measure: Measure) -> dict[Play, float | None]:
    """The measure of every episode; None for one that failed. A play given twice is a DataError."""
    found: dict[Play, float | None] = {}
    for one in episodes:
        play = _play(one)
        if play in found:
            raise DataError(
                f"evaluation: task {play.task} of {play.source} comes twice under seed {play.seed}; one "
                "episode a task and seed is allowed. Give each repeat its own seed."
            )
        found[play] = None if one.episode.failure is not None else measure(one)
    return found


def rate(found: Values) -> Estimate:
    """Mean of values in [0, 1] with the Wilson interval, clustered by task."""
    return _estimate(found, stats.rate_interval)


def mean(found: Values) -> Estimate:
    """Mean with the t interval, clustered by task."""
    return _estimate(found, stats.mean_interval)


def difference(first: Values, second: Values) -> Estimate:
    """Mean of first minus second over the plays that both have a value for; paired, clustered by task."""
    pairs = {play: (first.get(play), second.get(play)) for play in {**first, **second}}
    both = {play: (a, b) for play, (a, b) in pairs.items() if a is not None and b is not None}
    estimate = stats.paired_difference(
        [a for a, _ in both.values()], [b for _, b in both.values()], clusters=_tasks(both)
    )
    return replace(estimate, missing=len(pairs) - len(both), seeds=_seeds(both))


def by_set(found: Values) -> dict[str, dict[Play, float | None]]:
    """The values of each task set (`task.source`), in order of appearance."""
    sets: dict[str, dict[Play, float | None]] = {}
    for play, value in found.items():
        sets.setdefault(play.source, {})[play] = value
    return sets


def macro_rate(found: Values) -> Estimate:
    """Unweighted mean over the task sets of their rates."""
    return stats.macro_mean([rate(part) for part in by_set(found).values()])


def macro_difference(first: Values, second: Values) -> Estimate:
    """Unweighted mean over the task sets of their paired differences."""
    ours, theirs = by_set(first), by_set(second)
    return stats.macro_mean([difference(ours.get(name, {}), theirs.get(name, {})) for name in ours | theirs])


def seed_means(found: Values) -> dict[int, float]:
    """Seed -> unweighted mean over the task sets: what Welch's test compares. Raises DataError."""
    sets = by_set(found)
    return {seed: _seed_mean(sets, seed) for seed in _seeds(found)}


def at_equal_tokens(pool: Iterable[Scored], team: Iterable[Scored]) -> tuple[list[Scored], int]:
    """Samples of a single agent cut to the team's tokens on the same play; number of plays that had too few.

    Plays that only one side has are left out here and counted where the two are compared.
    """
    budgets = {_play(one): tokens(one) for one in team if one.episode.failure is None}
    kept = [cut(one, budget=budgets[_play(one)]) for one in pool if _play(one) in budgets]
    return kept, sum(tokens(one) < budgets[_play(one)] for one in kept)


def changes(episodes: Sequence[Scored]) -> Changes:
    """Improvement and worsening over both denominators; improved - worsened is the gain of the consensus."""
    wrong = [one for one in episodes if consensus(first_round(one)) == 0]
    right = [one for one in episodes if consensus(first_round(one)) == 1]
    return Changes(
        improved=rate(values(episodes, improved)),
        improved_of_wrong=rate(values(wrong, improved)),
        worsened=rate(values(episodes, worsened)),
        worsened_of_right=rate(values(right, worsened)),
    )


def _estimate(found: Values, interval: Callable[..., Estimate]) -> Estimate:
    known = _known(found)
    estimate = interval(list(known.values()), clusters=_tasks(known))
    return replace(estimate, missing=len(found) - len(known), seeds=_seeds(known))


def _seed_mean(sets: Mapping[str, Values], seed: int) -> float:
    rates = []
    for name, part in sets.items():
        known = [value for play, value in _known(part).items() if play.seed == seed]
        if not known:
            raise DataError(
                f"evaluation: seed {seed} has no value on {name}; means of seeds compare only over the same "
                f"task sets ({', '.join(sets)}). Play it there too, or leave the seed out."
            )
        rates.append(sum(known) / len(known))
    return sum(rates) / len(rates)


def _play(one: Scored) -> Play:
    return Play(one.episode.task.source, one.episode.task.id, one.seed)


def _known(found: Values) -> dict[Play, float]:
    return {play: value for play, value in found.items() if value is not None}


def _tasks(plays: Iterable[Play]) -> list[tuple[str, str]]:
    return [(play.source, play.task) for play in plays]


def _seeds(plays: Iterable[Play]) -> tuple[int, ...]:
    return tuple(sorted({play.seed for play in plays}))

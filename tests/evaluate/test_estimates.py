"""Estimates over episodes: who is paired with whom, what is left out, which denominators."""

from math import isnan

import pytest
from scored_episodes import debate

from seminar.errors import DataError
from seminar.evaluate import estimates, stats
from seminar.evaluate.estimates import values
from seminar.evaluate.metrics import (
    accuracy,
    consensus,
    debate_accuracy,
    final_round,
    first_round,
    tokens,
    vote,
)


def test_a_rate_is_clustered_by_task_over_seeds():
    outcomes = {"a": "77", "b": "57", "c": "55"}  # one character a seed
    plays = [debate(x, task=task, seed=i) for task, text in outcomes.items() for i, x in enumerate(text)]
    estimate = estimates.rate(values(plays, accuracy))
    expected = stats.rate_interval([1, 1, 0, 1, 0, 0], clusters=list("aabbcc"))
    assert (estimate.low, estimate.high) == (expected.low, expected.high)
    assert (estimate.value, estimate.n, estimate.clusters, estimate.seeds) == (0.5, 6, 3, (0, 1))


def test_equal_task_ids_of_two_sets_are_two_tasks():
    plays = [debate("7", source="aime24"), debate("5", source="aime25")]
    assert estimates.rate(values(plays, accuracy)).clusters == 2


def test_a_failed_episode_is_left_out_and_counted():
    plays = [debate("7", task="a"), debate("7", task="b", failed=True), debate("5", task="c")]
    estimate = estimates.rate(values(plays, accuracy))
    assert (estimate.value, estimate.n, estimate.missing) == (0.5, 2, 1)


def test_the_same_play_twice_is_refused():
    with pytest.raises(DataError, match="t0 of made-up comes twice under seed 0"):
        values([debate("7"), debate("5")], accuracy)


def test_a_difference_pairs_by_task_and_seed_whatever_the_order():
    ours = [debate("7", task="a"), debate("7", task="b"), debate("5", task="c")]
    theirs = [debate("5", task="c"), debate("5", task="b"), debate("7", task="a")]
    estimate = estimates.difference(values(ours, accuracy), values(theirs, accuracy))
    expected = stats.paired_difference([1, 1, 0], [1, 0, 0])
    assert (estimate.value, estimate.low, estimate.p) == (expected.value, expected.low, expected.p)


def test_a_difference_is_clustered_by_task_over_seeds():
    ours, theirs = (
        [debate(x, task=task, seed=i) for task, text in outcomes.items() for i, x in enumerate(text)]
        for outcomes in ({"a": "77", "b": "75", "c": "57"}, {"a": "55", "b": "75", "c": "55"})
    )
    estimate = estimates.difference(values(ours, accuracy), values(theirs, accuracy))
    expected = stats.paired_difference([1, 1, 0, 0, 0, 1], [0] * 6, clusters=list("aabbcc"))
    assert (estimate.low, estimate.p, estimate.clusters) == (expected.low, expected.p, 3)


def test_a_play_that_only_one_team_has_is_left_out_and_counted():
    ours = [debate("7", task="a"), debate("7", task="b"), debate("7", task="c", seed=1)]
    theirs = [debate("5", task="a"), debate("7", task="b"), debate("7", task="c", seed=2)]
    estimate = estimates.difference(values(ours, accuracy), values(theirs, accuracy))
    assert (estimate.value, estimate.n, estimate.missing) == (0.5, 2, 2)


def test_a_macro_rate_weighs_task_sets_equally():
    plays = [debate("7", task=str(i), source="large") for i in range(8)]
    plays += [debate("5", task=str(i), source="small") for i in range(2)]
    assert estimates.macro_rate(values(plays, accuracy)).value == 0.5  # micro: .8


def test_a_macro_difference_weighs_task_sets_equally():
    ours = [
        debate("7", task=str(i), source=source)
        for source, n in (("large", 8), ("small", 2))
        for i in range(n)
    ]
    theirs = [debate("7", task=str(i), source="large") for i in range(8)]
    theirs += [debate("5", task=str(i), source="small") for i in range(2)]
    assert estimates.macro_difference(values(ours, accuracy), values(theirs, accuracy)).value == 0.5


def test_a_macro_difference_over_a_set_that_only_one_team_played_is_unknown():
    theirs = [debate("7", source="x"), debate("7", source="y")]
    found = estimates.macro_difference(values(theirs[:1], accuracy), values(theirs, accuracy))
    assert isnan(found.value)
    assert found.missing == 1


def test_seed_means_are_macro_means_of_each_seed():
    plays = [debate("7", task="a", source="x", seed=0), debate("5", task="b", source="x", seed=0)]
    plays += [debate("7", task="a", source="y", seed=0)]
    plays += [debate("5", task="a", source=source, seed=1) for source in "xy"]
    assert estimates.seed_means(values(plays, accuracy)) == {0: 0.75, 1: 0.0}


def test_a_seed_without_one_of_the_sets_is_refused():
    plays = [debate("7", source="x"), debate("7", source="y"), debate("7", source="x", seed=1)]
    with pytest.raises(DataError, match="seed 1 has no value on y"):
        estimates.seed_means(values(plays, accuracy))


def test_samples_are_cut_to_the_tokens_the_team_spent_on_the_same_task():
    team = [debate("7 5", "7 7", task="a"), debate("7", "7", task="b")]  # 40 and 20 tokens
    pool = [debate("5 5 7 7 7 7", task="a"), debate("5 7 7 7", task="b")]
    cut, short = estimates.at_equal_tokens(pool, team)
    assert [tokens(one) for one in cut] == [40, 20]
    assert short == 0
    assert [vote(one) for one in cut] == [0, 0]


def test_plays_with_too_few_samples_for_the_budget_are_counted():
    _, short = estimates.at_equal_tokens([debate("7 7")], [debate("7 7", "7")])
    assert short == 1


def test_samples_of_a_task_the_team_never_finished_are_left_out_and_show_as_missing():
    team = [debate("7", "7", task="a"), debate("7", task="b", failed=True)]
    pool = [debate("7 7", task="a"), debate("7 7", task="b")]
    cut, _ = estimates.at_equal_tokens(pool, team)
    estimate = estimates.difference(values(team, debate_accuracy), values(cut, vote))
    assert (len(cut), estimate.n, estimate.missing) == (1, 1, 1)


def test_changes_have_both_denominators():
    debates = [
        debate("5 5", "7 7", task="a"),  # improved
        debate("5 5", "5 5", task="b"),
        debate("7 7", "5 5", task="c"),  # worsened
        debate("7 7", "7 7", task="d"),
        debate("7 7", "7 7", task="e"),
    ]
    found = estimates.changes(debates)
    assert (found.improved.value, found.improved.n) == (0.2, 5)
    assert (found.improved_of_wrong.value, found.improved_of_wrong.n) == (0.5, 2)
    assert (found.worsened.value, found.worsened.n) == (0.2, 5)
    assert (found.worsened_of_right.value, found.worsened_of_right.n) == (pytest.approx(1 / 3), 3)


def test_improved_minus_worsened_is_the_gain_of_the_consensus():
    debates = [
        debate(a, b, task=f"{a}>{b}")
        for a in ("7 7 5", "5 5 7", "7 5 3")
        for b in ("7 7 5", "5 5 7", "7 5 3")
    ]
    found = estimates.changes(debates[:7])
    gain = sum(consensus(final_round(one)) - consensus(first_round(one)) for one in debates[:7]) / 7
    assert found.improved.value - found.worsened.value == pytest.approx(gain)


def test_a_rate_over_no_plays_is_unknown():
    assert isnan(estimates.changes([debate("7 7", "7 7")]).improved_of_wrong.value)

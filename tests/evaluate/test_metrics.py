"""Measures of one episode against values worked by hand."""

import subprocess
import sys
from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from scipy.stats import entropy
from scored_episodes import debate, turn

from seminar.evaluate import metrics
from seminar.evaluate.metrics import final_round, first_round
from seminar.evaluate.stats import mean_interval
from seminar.types import Verdict


def test_debate_accuracy_is_the_mean_over_the_final_round_and_not_the_majority():
    one = debate("5 5 5", "7 7 5")
    assert metrics.debate_accuracy(one) == pytest.approx(2 / 3)
    assert metrics.vote(final_round(one)) == 1


def test_single_generators_are_scored_on_the_first_round_alone():
    assert metrics.accuracy(first_round(debate("7 5 5", "7 7 7"))) == pytest.approx(1 / 3)


def test_with_three_rounds_the_last_one_counts():
    assert metrics.debate_accuracy(debate("7 7", "7 7", "5 7")) == 0.5


def test_an_unanswered_turn_counts_as_wrong():
    assert metrics.accuracy(debate("7 -")) == 0.5


def test_a_vote_takes_the_most_frequent_answer():
    assert metrics.vote(debate("5 7 7")) == 1
    assert metrics.vote(debate("7 5 5")) == 0


def test_a_tied_vote_goes_to_the_first_agent():
    assert metrics.vote(debate("7 5 5 7")) == 1
    assert metrics.vote(debate("5 7 7 5")) == 0


def test_turns_without_an_answer_do_not_vote():
    assert metrics.vote(debate("- - 7")) == 1


def test_a_vote_of_nobody_is_wrong():
    assert metrics.vote(debate("- -")) == 0


def test_answers_that_are_written_differently_vote_together():
    one = debate("5 7 $7$")
    assert one.answers["agent-1/r0/d0/s0"] == one.answers["agent-2/r0/d0/s0"]
    # $7$ is not the gold string here, but the first turn with this answer is right
    assert metrics.vote(one) == 1


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("7 7 5", 1),
        ("7 7", 1),
        ("7 5", 0),
        ("7 7 5 5", 0),
        ("7 5 3", 0),
        ("7 5 3 7 2", 0),
        ("7 - -", 0),
        ("5 5 7", 0),
    ],
)
def test_consensus_needs_more_than_half_of_the_turns(answers, expected):
    assert metrics.consensus(debate(answers)) == expected


@pytest.mark.parametrize(
    ("before", "after", "improved", "worsened"),
    [
        ("5 5 7", "7 7 5", 1, 0),
        ("7 7 5", "5 5 7", 0, 1),
        ("7 7 5", "7 7 7", 0, 0),
        ("5 5 7", "5 5 5", 0, 0),
        ("7 5 3", "7 7 3", 1, 0),  # no majority before counts as wrong
        ("7 7 3", "7 5 3", 0, 1),  # and after as well
    ],
)
def test_improvement_and_worsening_compare_the_consensus_before_and_after(before, after, improved, worsened):
    one = debate(before, after)
    assert (metrics.improved(one), metrics.worsened(one)) == (improved, worsened)


def test_a_debate_that_ended_after_its_first_round_changed_nothing():
    one = debate("5 5")
    assert (metrics.improved(one), metrics.worsened(one)) == (0, 0)


def test_tokens_counts_every_generated_token_of_every_round():
    assert metrics.tokens(debate("7 5 5", "7 7 7")) == 60


def test_a_turn_that_was_not_graded_makes_correctness_unknown():
    one = debate("7 7 7")
    ungraded = replace(one, verdicts={key: v for key, v in one.verdicts.items() if "agent-2" not in key})
    for measure in (
        metrics.accuracy,
        metrics.vote,
        metrics.consensus,
        metrics.unanimous_wrong,
        metrics.improved,
    ):
        assert measure(ungraded) is None


def test_an_episode_without_turns_has_no_accuracy():
    assert metrics.debate_accuracy(debate()) is None


def test_a_view_keeps_only_the_role_asked_for():
    kept = metrics.of_role(debate("7 5", "7 7 7"), "critic")
    assert [t.key for t in kept.episode.turns] == [f"agent-{i}/r1/d0/s0" for i in range(3)]


@pytest.mark.parametrize(("budget", "kept"), [(0, 0), (1, 1), (10, 1), (11, 2), (30, 3), (1000, 4)])
def test_samples_are_kept_until_the_budget_is_reached(budget, kept):
    assert len(metrics.cut(debate("7 7 5 5"), budget=budget).episode.turns) == kept


def test_samples_beyond_the_budget_do_not_vote():
    assert metrics.vote(metrics.cut(debate("7 5 5 5"), budget=20)) == 1


def test_pairwise_agreement_counts_equal_pairs():
    assert metrics.agreement(debate("7 7 5")) == pytest.approx(1 / 3)  # of (7,7) (7,5) (7,5) one is equal
    assert metrics.agreement(debate("7 7 7 5")) == 0.5  # 3 of 6


def test_two_missing_answers_do_not_agree():
    assert metrics.agreement(debate("- - 7")) == 0
    assert metrics.unanimous(debate("- -")) == 0


@pytest.mark.parametrize(("answers", "expected"), [("7 7 7", 1), ("5 5", 1), ("7 7 5", 0), ("7 7 -", 0)])
def test_unanimity_needs_every_turn(answers, expected):
    assert metrics.unanimous(debate(answers)) == expected


@pytest.mark.parametrize(("answers", "expected"), [("7 7 7", 0), ("5 5", 1), ("5 5 3", 0), ("- -", 0)])
def test_unanimous_but_wrong(answers, expected):
    assert metrics.unanimous_wrong(debate(answers)) == expected


@pytest.mark.parametrize(
    ("answers", "expected"), [("7 7 7", 0), ("7 5 3", 1), ("7 5 5", 0.5), ("7 5 5 -", 0.5)]
)
def test_distinct_answers_run_from_all_the_same_to_all_different(answers, expected):
    assert metrics.distinct_answers(debate(answers)) == expected


@pytest.mark.parametrize(
    "measure",
    [
        metrics.agreement,
        metrics.unanimous,
        metrics.unanimous_wrong,
        metrics.distinct_answers,
        metrics.word_distance,
    ],
)
def test_a_single_turn_has_no_agreement_and_no_diversity(measure):
    assert measure(debate("7")) is None


def with_texts(*texts: str):
    one = debate(" ".join("7" for _ in texts))
    turns = tuple(replace(t, text=text) for t, text in zip(one.episode.turns, texts, strict=True))
    return replace(one, episode=replace(one.episode, turns=turns))


def test_word_distance_is_the_mean_jaccard_distance():
    # {a,b} {b,c}: 1 - 1/3; {a,b} {a,b}: 0; {b,c} {a,b}: 2/3 -> mean 4/9
    assert metrics.word_distance(with_texts("a b", "B c", "a b")) == pytest.approx(4 / 9)


def test_an_empty_text_is_far_from_words_and_equal_to_another_empty_text():
    assert metrics.word_distance(with_texts("", "a")) == 1
    assert metrics.word_distance(with_texts("", "")) == 0


def test_reasons_are_counted_by_role():
    counts = metrics.reasons([debate("7 5", "- 7"), debate("7 7")])
    assert counts == {"generator": {"correct": 3, "wrong": 1}, "critic": {"no_answer": 1, "correct": 1}}


def test_turns_without_a_verdict_are_counted_as_ungraded():
    assert metrics.reasons([replace(debate("7 5"), verdicts={})]) == {"generator": {"ungraded": 2}}


def test_winning_strategies_are_counted_by_agent():
    winners = [
        turn("a", 0, strategy="direct"),
        turn("a", 1, strategy="direct"),
        turn("b", 0, strategy="cases"),
    ]
    assert metrics.winning_strategies(winners) == {"a": {"direct": 2}, "b": {"cases": 1}}


def test_specialisation_is_0_for_equal_and_1_for_disjoint_distributions():
    assert metrics.specialisation({"a": {"x": 2, "y": 4}, "b": {"x": 1, "y": 2}}) == pytest.approx(
        0, abs=1e-7
    )
    assert metrics.specialisation({"a": {"x": 3}, "b": {"y": 1}}) == pytest.approx(1)


def test_specialisation_is_the_root_of_the_jensen_shannon_divergence_in_bits():
    a, b = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    divergence = (entropy(a, (a + b) / 2, base=2) + entropy(b, (a + b) / 2, base=2)) / 2
    counts = {"a": {"x": 5, "y": 5}, "b": {"x": 9, "y": 1}}
    assert metrics.specialisation(counts) == pytest.approx(divergence**0.5, rel=1e-9)


def test_specialisation_leaves_out_an_agent_that_never_won():
    assert metrics.specialisation({"a": {"x": 3}, "b": {"y": 1}, "c": {}}) == pytest.approx(1)


def test_specialisation_of_one_agent_is_unknown():
    assert isnan(metrics.specialisation({"a": {"x": 1}, "b": {}}))


def test_gain_per_parameter_gives_the_182_of_the_mada_paper():
    # .020 / 1.10e8 * 1e12 = 181.8
    gain = replace(mean_interval([0.0, 1.0]), value=0.020, low=0.010, high=0.030)
    scaled = metrics.gain_per_parameter(gain, parameters=110_000_000)
    assert (scaled.low, scaled.value, scaled.high) == pytest.approx((90.909, 181.818, 272.727), rel=1e-5)


def test_steps_to_converge_is_the_first_step_at_95_percent_of_the_last():
    assert metrics.steps_to_converge([(0, 0.1), (10, 0.56), (20, 0.571), (30, 0.55), (40, 0.6)]) == 20  # .57


def test_a_curve_that_ends_at_0_never_converges():
    assert metrics.steps_to_converge([(0, 0.1), (10, 0.0)]) is None
    assert metrics.steps_to_converge([]) is None


def test_a_normaliser_of_another_domain_can_be_given():
    one = debate("7 5")
    verdicts = {key: Verdict(correct=True, reason="correct", extracted="Paris ") for key in one.verdicts}
    again = metrics.scored(one.episode, verdicts, seed=0, normalise=lambda text: text.strip().lower())
    assert set(again.answers.values()) == {"paris"}


def test_measures_and_statistics_never_load_torch():
    code = "import sys, seminar.evaluate.estimates; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

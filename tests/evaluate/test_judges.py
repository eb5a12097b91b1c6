from math import isnan

import numpy as np
import pytest
from scipy import stats

from seminar.evaluate.judges import (
    calibration_error,
    correlation,
    question_aucs,
    trust,
    within_question_auc,
)


def test_the_auc_of_a_question_by_hand() -> None:
    # right .9 .4, wrong .6 .4: pairs won .9 > .6, .9 > .4, .4 < .6, .4 = .4: 1 + 1 + 0 + .5 of 4
    assert question_aucs([[0.9, 0.6, 0.4, 0.4]], [[True, False, True, False]]).tolist() == [0.625]


def test_the_auc_agrees_with_the_mann_whitney_test() -> None:
    rng = np.random.default_rng(0)
    scores, right = rng.integers(0, 6, 40) / 5, rng.random(40) < 0.4
    u = stats.mannwhitneyu(scores[right], scores[~right]).statistic
    pairs = right.sum() * (~right).sum()
    assert question_aucs([scores.tolist()], [right.tolist()])[0] == pytest.approx(u / pairs, rel=1e-12)


def test_telling_hard_questions_from_easy_ones_earns_nothing() -> None:
    scores = [[0.9, 0.9, 0.9, 0.9], [0.1, 0.1, 0.1, 0.1]]
    right = [[True, True, True, False], [True, False, False, False]]
    assert within_question_auc(scores, right) == 0.5


def test_questions_of_one_kind_have_no_auc_and_take_no_part() -> None:
    scores, right = [[0.2, 0.8], [0.9, 0.1], [0.5]], [[False, True], [True, True], [False]]
    assert within_question_auc(scores, right) == 1.0
    assert np.isnan(question_aucs(scores, right)).tolist() == [False, True, True]
    assert isnan(within_question_auc([[0.1]], [[True]]))


def test_the_calibration_error_by_hand() -> None:
    # bin 0: said .05, right 1 of 1: gap .95; bin 9: said .95 and 1, right 1 of 2: gap .475
    # (.95 + 2 * .475) / 3
    assert calibration_error([0.05, 0.95, 1.0], [True, True, False]) == pytest.approx(1.9 / 3, rel=1e-12)


def test_a_judge_that_says_the_rate_is_calibrated() -> None:
    assert calibration_error([0.25] * 4, [True, False, False, False]) == pytest.approx(0.0, abs=1e-12)
    assert isnan(calibration_error([], []))


def test_correlation_is_pearsons_and_nan_where_one_side_never_changes() -> None:
    assert correlation([1, 2, 4], [2, 1, 6]) == pytest.approx(stats.pearsonr([1, 2, 4], [2, 1, 6]).statistic)
    assert isnan(correlation([1, 1], [0, 1]))
    assert isnan(correlation([1], [1]))


def test_trust_leaves_out_what_was_not_scored_and_counts_the_rest() -> None:
    found = trust(
        [[0.8, 0.2, None], [0.6]],
        right=[[True, False, True], [True]],
        peers=[[0.9, None, 0.5], [0.3]],
    )
    assert (found.auc, found.auc_questions, found.drafts) == (1.0, 1, 3)
    assert found.truth == pytest.approx(stats.pearsonr([0.8, 0.2, 0.6], [1, 0, 1]).statistic)
    assert found.peers == pytest.approx(1.0)  # two pairs: .8 .9 and .6 .3
    # bins 8, 2, 6: gaps .2, .2, .4 over 3 drafts
    assert found.calibration == pytest.approx(0.8 / 3)

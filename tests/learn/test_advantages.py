"""Credit schemes against worked numbers, slow loops and the corners of MADA-RL."""

import numpy as np
import pytest

from seminar.learn.advantages import advantages, assign
from seminar.types import Group, Score, Task


def group(totals, *, role="generator", baseline=None, agent="a"):
    scores = tuple(None if t is None else Score(parts={}, total=t) for t in totals)
    return Group(
        task=Task(id="t", question="q"),
        agent=agent,
        role=role,
        round=0,
        turns=(),
        scores=scores,
        baseline=baseline,
    )


def test_group_scheme_is_centred_and_scaled_by_the_sample_deviation():
    # R = 1, 2, 3, 6: mean 3, squared deviations 4 1 0 9 = 14, std = sqrt(14 / 3) = 2.1602469
    std = (14 / 3) ** 0.5 + 1e-4
    np.testing.assert_allclose(
        advantages([1, 2, 3, 6], scheme="group"), np.array([-2, -1, 0, 3]) / std, rtol=1e-12
    )


def test_group_scheme_sums_to_zero():
    rng = np.random.default_rng(0)
    for size in (2, 3, 8):
        assert abs(advantages(rng.normal(size=size), scheme="group").sum()) < 1e-12


@pytest.mark.parametrize("scheme", ["group", "group_no_std", "leave_one_out"])
def test_equal_rewards_give_exactly_zero(scheme):
    # 0.95 seven times: a one-pass float32 variance is not 0 here
    assert advantages([0.95] * 7, scheme=scheme).tolist() == [0.0] * 7


def test_leave_one_out_matches_a_slow_loop():
    rewards = [0.0] + [0.95] * 7
    slow = [r - np.mean(rewards[:i] + rewards[i + 1 :]) for i, r in enumerate(rewards)]
    np.testing.assert_allclose(advantages(rewards, scheme="leave_one_out"), slow, rtol=1e-12)
    assert advantages(rewards, scheme="leave_one_out")[0] == pytest.approx(-0.95)


@pytest.mark.parametrize(
    ("acc_g", "correct", "wrong"), [(0, 2, 0), (1 / 3, 4 / 3, -2 / 3), (2 / 3, 2 / 3, -4 / 3), (1, 0, -2)]
)
def test_counterfactual_has_the_papers_corners(acc_g, correct, wrong):
    found = advantages([2.0, 0.0], scheme="counterfactual", baseline=2 * acc_g)
    np.testing.assert_allclose(found, [correct, wrong], rtol=1e-12, atol=1e-15)


def test_counterfactual_takes_no_group_mean_and_no_deviation():
    groups = [group([2.5, 2.5, 2.5], role="critic", baseline=1 / 3)]
    (credit,) = assign(groups, schemes={"critic": "counterfactual"}, accuracy_weight=2.0)
    np.testing.assert_allclose(credit, [2.5 - 2 / 3] * 3, rtol=1e-12)


def test_counterfactual_needs_a_baseline():
    with pytest.raises(ValueError, match="baseline"):
        advantages([1.0], scheme="counterfactual")


def test_a_turn_without_score_stays_nan_and_outside_the_mean():
    found = advantages([1.0, np.nan, 3.0], scheme="group_no_std")
    np.testing.assert_array_equal(found, [-1.0, np.nan, 1.0])


def test_roles_and_agents_are_never_mixed():
    groups = [group([0, 1]), group([10, 11], role="critic", baseline=0.5), group([100, 102], agent="b")]
    credit = assign(groups, schemes={"generator": "group_no_std", "critic": "counterfactual"})
    np.testing.assert_allclose(credit[0], [-0.5, 0.5])
    np.testing.assert_allclose(credit[1], [9, 10])
    np.testing.assert_allclose(credit[2], [-1, 1])


def test_one_known_score_gives_zero_under_a_group_scheme():
    np.testing.assert_array_equal(advantages([5.0, np.nan], scheme="group"), [0.0, np.nan])

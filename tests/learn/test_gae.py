import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seminar.learn.gae import gae, units_of


def test_token_advantages_by_hand() -> None:
    # gamma .99, lam .95, so gamma * lam = .9405; V = .5 .4 .8, reward 1
    # delta_2 = 1 - .8 = .2;  delta_1 = .99 * .8 - .4 = .392;  delta_0 = .99 * .4 - .5 = -.104
    # A_2 = .2;  A_1 = .392 + .9405 * .2 = .5801;  A_0 = -.104 + .9405 * .5801 = .44158405
    credit = gae([0.5, 0.4, 0.8], reward=1.0)
    np.testing.assert_allclose(credit.advantages_T, [0.44158405, 0.5801, 0.2], rtol=1e-12)
    # targets A + V
    np.testing.assert_allclose(credit.targets_T, [0.94158405, 0.9801, 1.0], rtol=1e-12)


def test_step_advantages_by_hand() -> None:
    # steps of 2, 1 and 3 tokens; values before them .5, .4, .8: the numbers of the test above, on whole steps
    values = [0.5, 9.0, 0.4, 0.8, 9.0, 9.0]
    credit = gae(values, reward=1.0, units_T=[0, 0, 1, 2, 2, 2])
    np.testing.assert_allclose(credit.advantages_T, [0.44158405] * 2 + [0.5801] + [0.2] * 3, rtol=1e-12)
    np.testing.assert_allclose(
        credit.targets_T, [0.94158405, np.nan, 0.9801, 1.0, np.nan, np.nan], rtol=1e-12
    )


def test_without_a_value_head_the_reward_is_discounted_from_the_end() -> None:
    # V = 0: A_t = (gamma * lam)^(T - 1 - t) * R;  .9405^2 = .88454025
    np.testing.assert_allclose(gae([0, 0, 0], reward=2.0).advantages_T, [1.7690805, 1.881, 2.0], rtol=1e-12)


def test_a_draft_cut_by_the_token_limit_gets_its_reward_at_the_cut() -> None:
    # cut inside step 1: A_1 = -.5 - .4 = -.9;  A_0 = .99 * .4 - .5 + .9405 * -.9 = -.95045
    credit = gae([0.5, 0.3, 0.4, 0.7], reward=-0.5, units_T=[0, 0, 1, 1])
    np.testing.assert_allclose(credit.advantages_T, [-0.95045, -0.95045, -0.9, -0.9], rtol=1e-12)
    np.testing.assert_allclose(credit.targets_T, [-0.45045, np.nan, -0.5, np.nan], rtol=1e-12)


def test_with_gamma_and_lambda_one_the_advantage_is_reward_minus_value() -> None:
    credit = gae([0.5, 0.4, 0.8], reward=1.0, gamma=1.0, lam=1.0)
    np.testing.assert_allclose(credit.advantages_T, [0.5, 0.6, 0.2], rtol=1e-12)
    np.testing.assert_allclose(credit.targets_T, [1.0, 1.0, 1.0], rtol=1e-12)


def test_no_tokens_give_no_credit() -> None:
    credit = gae([], reward=1.0, units_T=[])
    assert (len(credit.advantages_T), len(credit.targets_T)) == (0, 0)


def slow(values: list[float], units: list[int], reward: float, gamma: float, lam: float) -> list[float]:
    """Eq. 16 as it stands: for each unit the discounted sum of all later deltas."""
    numbers = sorted(set(units))
    V = [values[units.index(u)] for u in numbers] + [0.0]
    delta = [
        (reward if k == len(numbers) - 1 else 0.0) + gamma * V[k + 1] - V[k] for k in range(len(numbers))
    ]
    A = [sum((gamma * lam) ** (j - k) * delta[j] for j in range(k, len(delta))) for k in range(len(delta))]
    return [A[numbers.index(u)] for u in units]


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=40),
    st.floats(-2, 2),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_it_agrees_with_the_sum_over_later_deltas(
    tokens: list[tuple[float, int]], reward: float, gamma: float, lam: float
) -> None:
    values = [value for value, _ in tokens]
    units = np.cumsum([jump for _, jump in tokens]).tolist()
    credit = gae(values, reward=reward, units_T=units, gamma=gamma, lam=lam)
    np.testing.assert_allclose(
        credit.advantages_T, slow(values, units, reward, gamma, lam), rtol=1e-6, atol=1e-6
    )


def test_units_that_fall_are_refused() -> None:
    with pytest.raises(AssertionError, match="fall"):
        gae([0.0, 0.0], reward=1.0, units_T=[1, 0])


def test_a_token_belongs_to_the_step_in_which_it_begins() -> None:
    # text "ab\ncd\n#### 1": steps 0-3, 3-6, 6-12; a token may straddle a line break
    steps = [(0, 3), (3, 6), (6, 12)]
    tokens = [(0, 2), (2, 4), (4, 6), (6, 10), (10, 12), (12, 12)]  # the last: end of sequence
    assert units_of(tokens, steps).tolist() == [0, 0, 1, 2, 2, 2]


def test_a_special_token_that_points_to_the_start_stays_in_its_step() -> None:
    assert units_of([(0, 3), (3, 6), (0, 0)], [(0, 3), (3, 6)]).tolist() == [0, 1, 1]


def test_text_without_steps_is_one_unit() -> None:
    assert units_of([(0, 0), (0, 0)], ()).tolist() == [0, 0]
    assert units_of([], ()).tolist() == []

"""Estimates against scipy, statsmodels, published tables and simulation."""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats
from statsmodels.stats.contingency_tables import mcnemar as sm_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from seminar.errors import DataError
from seminar.evaluate.stats import (
    Estimate,
    bonferroni,
    bootstrap_difference,
    holm,
    macro_mean,
    mcnemar,
    mean_interval,
    pair_matrix,
    paired_difference,
    rate_interval,
    welch,
    wilson,
)

EXACT = 1e-9
RNG = np.random.default_rng(7)
# 12 tasks with 1 to 4 observations each
LABELS = [f"task-{i}" for i in range(12) for _ in range(1 + i % 4)]
FIRST = [
    float(x) for x in RNG.random(len(LABELS)) + np.repeat(RNG.random(12), [1 + i % 4 for i in range(12)])
]
SECOND = [float(x) for x in RNG.random(len(LABELS))]


def unknown(estimate: Estimate) -> bool:
    return isnan(estimate.low) and isnan(estimate.high)


def clustered_regression(values: list[float], labels: list[str]):
    groups = np.unique(labels, return_inverse=True)[1]
    model = sm.OLS(np.array(values), np.ones(len(values)))
    return model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)


def test_mean_interval_without_clusters_is_the_ordinary_t_interval():
    low, high = scipy_stats.ttest_1samp(FIRST, 0).confidence_interval(0.95)
    estimate = mean_interval(FIRST)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=EXACT)
    assert estimate.value == pytest.approx(np.mean(FIRST), rel=EXACT)


def test_mean_interval_with_clusters_is_that_of_a_regression_with_clustered_errors():
    fit = clustered_regression(FIRST, LABELS)
    estimate = mean_interval(FIRST, clusters=LABELS)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=EXACT)
    assert estimate.se == pytest.approx(fit.bse[0], rel=EXACT)


def test_n_counts_observations_and_clusters_counts_tasks():
    estimate = mean_interval(FIRST, clusters=LABELS)
    assert (estimate.n, estimate.clusters) == (30, 12)


def test_equal_clusters_give_the_interval_of_the_cluster_means():
    values = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]  # tasks a, b, c with means .5, 1, 0
    estimate = mean_interval(values, clusters=["a", "a", "b", "b", "c", "c"])
    means = mean_interval([0.5, 1.0, 0.0])
    assert (estimate.low, estimate.high) == pytest.approx((means.low, means.high), rel=EXACT)


def test_order_of_observations_does_not_matter():
    order = RNG.permutation(len(FIRST))
    shuffled = mean_interval([FIRST[i] for i in order], clusters=[LABELS[i] for i in order])
    assert shuffled.se == pytest.approx(mean_interval(FIRST, clusters=LABELS).se, rel=EXACT)


def test_one_task_gives_its_mean_and_an_unknown_interval():
    estimate = mean_interval([0.0, 1.0], clusters=["a", "a"])
    assert estimate.value == 0.5
    assert unknown(estimate)
    assert isnan(estimate.se)


def test_no_observation_gives_nan_and_n_0():
    estimate = mean_interval([])
    assert isnan(estimate.value)
    assert unknown(estimate)
    assert (estimate.n, estimate.clusters) == (0, 0)


def test_values_without_spread_have_no_t_interval():
    estimate = mean_interval(
        [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], clusters=list("aaabbc")
    )  # sums .3000000000000004, .2, .1
    assert estimate.value == pytest.approx(0.1)
    assert unknown(estimate)


def test_a_value_that_is_not_a_number_is_refused():
    with pytest.raises(DataError, match="1 not finite"):
        mean_interval([1.0, nan])


def test_a_missing_cluster_label_is_refused():
    with pytest.raises(DataError, match="1 cluster label"):
        mean_interval([1.0, 2.0], clusters=["a"])


# Newcombe (1998), Statistics in Medicine 17, table I, method 3 (score without continuity correction)
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_intervals(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("successes", "n"), [(0, 2), (1, 2), (29, 30), (30, 30), (12, 200)])
def test_wilson_agrees_with_scipy(successes, n):
    interval = scipy_stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((interval.low, interval.high), rel=EXACT, abs=1e-15)


def test_wilson_of_one_trial_is_unknown():
    assert all(isnan(end) for end in wilson(1, 1))


def test_a_rate_with_one_outcome_a_task_has_the_textbook_wilson_interval():
    estimate = rate_interval([1] * 12 + [0] * 18, clusters=list(range(30)))
    assert (estimate.low, estimate.high) == pytest.approx(wilson(12, 30), rel=EXACT)
    assert estimate.value == pytest.approx(0.4)


def test_one_run_of_thirty_problems_at_40_percent_has_a_standard_error_of_8_9_points():
    # sqrt(.4 * .6 / 29) = .0910 with n - 1; sqrt(.4 * .6 / 30) = .0894 without
    assert rate_interval([1] * 12 + [0] * 18).se == pytest.approx((0.24 / 29) ** 0.5, rel=EXACT)


def test_repeating_the_same_outcomes_within_a_task_does_not_narrow_a_rate():
    once = rate_interval([1] * 12 + [0] * 18)
    thrice = rate_interval([1] * 36 + [0] * 54, clusters=[i // 3 for i in range(90)])
    # 30 tasks, t(29) = 2.04523: 30 * (1.95996/2.04523)^2 = 27.55 effective observations, never 90
    expected = proportion_confint(0.4 * 27.5506, 27.5506, method="wilson")
    assert (thrice.low, thrice.high) == pytest.approx(expected, rel=1e-5)
    assert thrice.high - thrice.low > once.high - once.low


def test_a_rate_that_never_varies_still_has_a_wide_interval():
    estimate = rate_interval([1.0] * 60, clusters=[i // 3 for i in range(60)])  # 20 tasks, always right
    assert (estimate.low, estimate.high) == pytest.approx(wilson(20, 20), rel=EXACT)


def test_an_interval_at_0_successes_starts_at_0_and_not_below():
    assert all(0 <= wilson(0, n)[0] < 1e-15 for n in range(2, 200))


def test_a_rate_refuses_a_value_above_one():
    with pytest.raises(DataError, match=r"2.*needs numbers in \[0, 1\]"):
        rate_interval([0.0, 2.0])


def test_paired_difference_with_one_pair_a_task_is_the_paired_t_test():
    estimate = paired_difference(FIRST, SECOND)
    test = scipy_stats.ttest_rel(FIRST, SECOND)
    assert estimate.p == pytest.approx(test.pvalue, rel=EXACT)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(test.confidence_interval(0.95)), rel=EXACT)


def test_paired_difference_with_clusters_has_the_p_value_of_the_clustered_regression():
    fit = clustered_regression([a - b for a, b in zip(FIRST, SECOND, strict=True)], LABELS)
    assert paired_difference(FIRST, SECOND, clusters=LABELS).p == pytest.approx(fit.pvalues[0], rel=1e-7)


def test_paired_difference_refuses_sides_of_different_length():
    with pytest.raises(DataError, match="3 values against 2"):
        paired_difference([1, 2, 3], [1, 2])


def test_equal_teams_differ_by_0_with_an_unknown_interval():
    estimate = paired_difference([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
    assert estimate.value == 0
    assert unknown(estimate)
    assert isnan(estimate.p)


def test_bootstrap_redraws_whole_tasks():
    # every task's pairs agree with one another, so doubling them must not narrow the interval
    single = bootstrap_difference(FIRST, SECOND, seed=1)
    doubled = bootstrap_difference(FIRST * 2, SECOND * 2, clusters=list(range(len(FIRST))) * 2, seed=1)
    assert (doubled.low, doubled.high) == pytest.approx((single.low, single.high), rel=EXACT)


def test_bootstrap_agrees_with_a_plain_loop():
    rng = np.random.default_rng(0)
    differences = {task: [] for task in LABELS}
    for task, a, b in zip(LABELS, FIRST, SECOND, strict=True):
        differences[task].append(a - b)
    tasks = list(differences)
    means = []
    for _ in range(4000):
        drawn = [d for i in rng.integers(0, len(tasks), len(tasks)) for d in differences[tasks[i]]]
        means.append(np.mean(drawn))
    estimate = bootstrap_difference(FIRST, SECOND, clusters=LABELS, seed=3)
    # two Monte Carlo runs: the ends agree to a few hundredths of the interval's width
    width = estimate.high - estimate.low
    assert (estimate.low, estimate.high) == pytest.approx(
        tuple(np.quantile(means, [0.025, 0.975])), abs=0.05 * width
    )


def test_bootstrap_with_the_same_seed_gives_the_same_interval_and_names_the_seed():
    first, second = (bootstrap_difference(FIRST, SECOND, clusters=LABELS, seed=5) for _ in range(2))
    assert first == second
    assert first.method.endswith("seed 5")


def test_macro_mean_of_t_intervals_adds_the_half_widths_in_squares():
    parts = [mean_interval(FIRST[:10]), mean_interval(SECOND)]
    half = [part.high - part.value for part in parts]
    whole = macro_mean(parts)
    assert whole.value == pytest.approx((parts[0].value + parts[1].value) / 2, rel=EXACT)
    assert whole.high - whole.value == pytest.approx((half[0] ** 2 + half[1] ** 2) ** 0.5 / 2, rel=EXACT)
    assert (whole.n, whole.clusters) == (40, 40)


def test_macro_mean_gives_the_average_of_the_mada_papers_own_row():
    row = [replace(mean_interval(FIRST), value=value) for value in (72.0, 26.2, 20.0, 68.7, 22.5)]
    assert macro_mean(row).value == pytest.approx(41.88, rel=EXACT)  # table 1 prints 41.9


def test_macro_mean_of_wilson_intervals_keeps_their_skew():
    part = rate_interval([1] + [0] * 28)  # .0345 [.0061, .1718]
    whole = macro_mean([part, part])
    # two equal sets: each distance shrinks by sqrt 2
    assert whole.value - whole.low == pytest.approx((part.value - part.low) / 2**0.5, rel=EXACT)
    assert whole.high - whole.value == pytest.approx((part.high - part.value) / 2**0.5, rel=EXACT)


def test_macro_mean_of_one_set_is_its_estimate_with_its_p_value():
    part = paired_difference(FIRST, SECOND)
    assert macro_mean([part]) == part


def test_macro_mean_names_every_seed_once_in_order():
    parts = [replace(mean_interval(FIRST), seeds=seeds, missing=2) for seeds in ((64, 3), (3, 11))]
    assert macro_mean(parts).seeds == (3, 11, 64)
    assert macro_mean(parts).missing == 4


def test_macro_mean_with_an_unknown_part_is_unknown():
    whole = macro_mean([mean_interval(FIRST), mean_interval([1.0])])
    assert unknown(whole)


def test_welch_agrees_with_statsmodels():
    estimate = welch(FIRST[:10], SECOND[:7])
    comparison = sm.stats.CompareMeans.from_data(FIRST[:10], SECOND[:7])
    assert (estimate.low, estimate.high) == pytest.approx(
        comparison.tconfint_diff(usevar="unequal"), rel=EXACT
    )
    assert estimate.p == pytest.approx(comparison.ttest_ind(usevar="unequal")[1], rel=EXACT)


@pytest.mark.filterwarnings("error")
def test_welch_with_one_run_is_unknown():
    estimate = welch([0.5], [0.4, 0.3])
    assert estimate.value == pytest.approx(0.15)
    assert unknown(estimate)
    assert isnan(estimate.p)


# MADA-RL (arXiv 2607.18006), tables 1 and 2: macro mean over 10 seeds and its standard error; MADA (41.9,
# .3) minus the model, and the printed p-value (.001 stands for "<.001")
MADA_TABLE = {
    "R1": (39.9, 0.3, 2.0, 0.001),
    "Still-3": (43.1, 0.4, -1.3, 0.020),
    "DeepScaleR": (44.3, 0.3, -2.4, 0.001),
    "Open-RS1": (40.4, 0.4, 1.5, 0.011),
    "Open-RS2": (39.4, 0.3, 2.5, 0.001),
    "Open-RS3": (40.4, 0.3, 1.4, 0.006),
    "Tina": (39.8, 0.3, 2.1, 0.001),
    "Still-3-LoRA": (41.3, 0.4, 0.6, 0.280),
    "DeepScaleR-LoRA": (40.5, 0.3, 1.4, 0.015),
}


def ten_seeds(mean: float, se: float) -> list[float]:
    """Ten numbers with exactly this mean and standard error."""
    shape = np.arange(10) - 4.5
    return [float(x) for x in mean + shape / shape.std(ddof=1) * se * 10**0.5]


@pytest.mark.parametrize("model", MADA_TABLE)
def test_welch_reproduces_the_p_values_of_the_mada_paper_within_its_rounding(model):
    _, se, difference, printed = MADA_TABLE[model]
    # difference and standard errors are printed to .05 either way: p must lie between what both extremes give
    size = abs(difference)
    smallest = welch(ten_seeds(size + 0.05, 0.25), ten_seeds(0.0, se - 0.05)).p
    largest = welch(ten_seeds(size - 0.05, 0.35), ten_seeds(0.0, se + 0.05)).p
    slack = (
        0.0012 if model == "DeepScaleR-LoRA" else 0.0005
    )  # its .015 is above .0138, the most its row allows
    assert smallest <= printed + slack
    assert printed == 0.001 or printed - slack <= largest


def test_welch_reproduces_the_interval_of_mada_against_its_base():
    # printed: +2.0 [1.0, 3.0], both standard errors .3; .34 prints as .3 and gives t(18) .34 sqrt 2 = 1.01
    estimate = welch(ten_seeds(41.9, 0.34), ten_seeds(39.9, 0.34))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((2.0, 0.99, 3.01), abs=0.005)


def test_the_pair_matrix_of_ten_models_has_45_entries_first_minus_second():
    runs = {name: ten_seeds(mean, se) for name, (mean, se, *_) in MADA_TABLE.items()}
    matrix = pair_matrix({"MADA": ten_seeds(41.9, 0.3), **runs})
    assert len(matrix) == 45
    assert matrix["MADA", "R1"].value == pytest.approx(2.0, rel=EXACT)


@pytest.mark.parametrize(("both", "first", "second", "neither"), [(20, 12, 3, 5), (0, 1, 0, 0), (9, 4, 4, 2)])
def test_mcnemar_agrees_with_statsmodels(both, first, second, neither):
    a = [True] * both + [True] * first + [False] * second + [False] * neither
    b = [True] * both + [False] * first + [True] * second + [False] * neither
    result = mcnemar(a, b)
    assert (result.only_first, result.only_second) == (first, second)
    assert result.p == pytest.approx(
        sm_mcnemar([[both, first], [second, neither]], exact=True).pvalue, rel=EXACT
    )


def test_mcnemar_without_a_difference_gives_p_1():
    assert mcnemar([True, False], [True, False]).p == 1


P_VALUES = [0.001, 0.020, 0.0004, 0.011, 0.9, 0.006, 0.002, 0.280, 0.015]


@pytest.mark.parametrize(("correct", "method"), [(holm, "holm"), (bonferroni, "bonferroni")])
def test_corrections_agree_with_statsmodels(correct, method):
    assert correct(P_VALUES) == pytest.approx(list(multipletests(P_VALUES, method=method)[1]), rel=EXACT)


def test_holm_never_ranks_a_larger_p_value_first():
    # .011 * 1 = .011 would pass below .010 * 2 = .020
    assert holm([0.011, 0.010]) == pytest.approx([0.020, 0.020], rel=EXACT)


@pytest.mark.parametrize("correct", [holm, bonferroni])
def test_a_test_that_could_not_be_made_is_no_member_of_the_family(correct):
    adjusted = correct([0.01, nan, 0.02])
    assert [adjusted[0], adjusted[2]] == correct([0.01, 0.02])
    assert isnan(adjusted[1])


def test_times_changes_the_unit_of_everything_that_has_one():
    estimate = Estimate(
        value=0.02, low=0.01, high=0.03, se=0.005, n=9, clusters=3, method="m", p=0.01, seeds=(4,)
    )
    assert estimate.times(100) == Estimate(
        value=2.0, low=1.0, high=3.0, se=0.5, n=9, clusters=3, method="m", p=0.01, seeds=(4,)
    )


def debate_outcomes(rng, *, num_tasks, num_seeds, draws):
    """Share of two critics' right answers per task and seed for an untrained and a trained team."""
    base = rng.beta(0.6, 1.4, size=(draws, num_tasks, 1))  # mean .3, very uneven difficulty
    trained = 0.1 + 0.9 * base
    return [rng.binomial(2, p, size=(draws, num_tasks, num_seeds)) / 2 for p in (base, trained)]


def coverage(intervals, truth):
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


@pytest.mark.parametrize(("num_tasks", "num_seeds"), [(10, 2), (40, 3)])
def test_the_paired_interval_covers_the_truth_95_percent_of_the_time(num_tasks, num_seeds):
    untrained, trained = debate_outcomes(
        np.random.default_rng(11), num_tasks=num_tasks, num_seeds=num_seeds, draws=1500
    )
    labels = [task for task in range(num_tasks) for _ in range(num_seeds)]
    intervals = [
        paired_difference(b.ravel().tolist(), a.ravel().tolist(), clusters=labels)
        for a, b in zip(untrained, trained, strict=True)
    ]
    # truth .1 * (1 - .3); three standard errors of the coverage are 3 * sqrt(.95 * .05 / 1500) = .017
    assert coverage(intervals, 0.07) == pytest.approx(0.95, abs=0.017)


@pytest.mark.parametrize(("num_tasks", "num_seeds"), [(20, 4), (100, 1)])
def test_the_rate_interval_covers_the_truth_at_least_about_95_percent_of_the_time(num_tasks, num_seeds):
    untrained, _ = debate_outcomes(
        np.random.default_rng(12), num_tasks=num_tasks, num_seeds=num_seeds, draws=1500
    )
    labels = [task for task in range(num_tasks) for _ in range(num_seeds)]
    intervals = [rate_interval(draw.ravel().tolist(), clusters=labels) for draw in untrained]
    assert 0.93 <= coverage(intervals, 0.3) <= 0.98


def test_ignoring_tasks_would_cover_far_less_than_95_percent():
    untrained, _ = debate_outcomes(np.random.default_rng(13), num_tasks=20, num_seeds=6, draws=500)
    intervals = [mean_interval(draw.ravel().tolist()) for draw in untrained]
    assert coverage(intervals, 0.3) < 0.8


def test_with_few_tasks_the_bootstrap_covers_less_than_the_t_interval():
    untrained, trained = debate_outcomes(np.random.default_rng(14), num_tasks=10, num_seeds=1, draws=400)
    pairs = [(b.ravel().tolist(), a.ravel().tolist()) for a, b in zip(untrained, trained, strict=True)]
    bootstrapped = [bootstrap_difference(b, a, seed=i, resamples=400) for i, (b, a) in enumerate(pairs)]
    assert coverage(bootstrapped, 0.07) < coverage([paired_difference(b, a) for b, a in pairs], 0.07) - 0.02

"""Draws follow the distribution they claim, on every size of vocabulary."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from seminar.engines import sampling
from seminar.engines.sampling import draw, uniforms


def logits(rows, vocabulary, *, seed=0, scale=2.0):
    return torch.from_numpy(np.random.default_rng(seed).normal(scale=scale, size=(rows, vocabulary))).float()


def drawn(logits_NV, uniform, *, temperature=1.0, top_p=1.0):
    count = len(logits_NV)
    return draw(
        logits_NV,
        temperature_N=torch.full((count,), temperature),
        top_p_N=torch.full((count,), top_p),
        uniform_N=torch.as_tensor(uniform, dtype=torch.float64),
    )


@pytest.mark.parametrize("vocabulary", [5, 256, 700])
@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_tokens_come_as_often_as_their_probability_says(vocabulary, temperature):
    row, count = logits(1, vocabulary), 40_000
    ids = drawn(row.expand(count, -1), uniforms((1, vocabulary), count=count), temperature=temperature).ids
    expected = (row[0].double() / temperature).softmax(-1).numpy() * count
    common = expected > 5
    observed = np.bincount(ids, minlength=vocabulary)
    pooled = (np.append(v[common], v[~common].sum()) for v in (observed, expected))
    seen, due = (v[: common.sum() + (not common.all())] for v in pooled)
    assert stats.chisquare(seen, due).pvalue > 1e-3


def test_a_token_is_where_the_cumulative_distribution_passes_the_number():
    # softmax of log(.1 .2 .3 .4): edges .1 .3 .6 1
    row = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(6, -1)
    assert drawn(row, [0.0, 0.0999, 0.1001, 0.5999, 0.6001, 1 - 2**-53]).ids.tolist() == [0, 0, 1, 2, 3, 3]


def test_tokens_without_probability_are_never_drawn():
    row = torch.full((600,), -torch.inf)
    row[[3, 300, 599]] = torch.tensor([0.0, 1.0, 2.0])
    for number in (0.0, 1e-300, 0.3, 0.9, 1 - 2**-53):
        assert drawn(row[None], [number]).ids.item() in (3, 300, 599)


def test_logprobs_are_log_softmax_at_the_temperature_of_each_row():
    rows = logits(3, 700)
    temperature = torch.tensor([0.2, 0.7, 1.0])
    ids, logprobs = draw(
        rows, temperature_N=temperature, top_p_N=torch.ones(3), uniform_N=torch.rand(3, dtype=torch.float64)
    )
    expected = (rows.double() / temperature[:, None]).log_softmax(-1).gather(1, ids[:, None])[:, 0]
    np.testing.assert_allclose(logprobs, expected, rtol=0, atol=1e-5)


def test_a_row_is_drawn_alike_alone_and_among_others(monkeypatch):
    rows, numbers = logits(40, 300), np.linspace(0.01, 0.99, 40)
    together = drawn(rows, numbers)
    alone = [drawn(rows[i : i + 1], numbers[i : i + 1]).ids.item() for i in range(40)]
    monkeypatch.setattr(sampling, "CHUNK_BYTES", 1)
    assert together.ids.tolist() == alone == drawn(rows, numbers).ids.tolist()


@pytest.mark.parametrize("likely", [2, 512])
@pytest.mark.parametrize("top_p", [0.1, 0.8, 0.99])
def test_the_nucleus_is_the_smallest_set_that_reaches_top_p(monkeypatch, likely, top_p):
    monkeypatch.setattr(sampling, "NUCLEUS", likely)
    row, count = logits(1, 300), 3000
    ids, logprobs = drawn(row.expand(count, -1), uniforms((0,), count=count), top_p=top_p)
    full = row[0].double().softmax(-1)
    order = full.argsort(descending=True)
    size = 1 + int((full[order].cumsum(0) < top_p).sum())
    kept = set(order[:size].tolist())
    assert set(ids.tolist()) <= kept
    assert full[ids].min() < 2 * full[order[:size]].quantile(0.3)
    expected = (full[ids] / full[order[:size]].sum()).log()
    np.testing.assert_allclose(logprobs, expected, rtol=0, atol=1e-5)


def test_top_p_1_beside_a_cut_row_is_not_cut():
    rows = torch.tensor([0.6, 0.3, 0.1]).log().expand(2, -1)
    ids, logprobs = draw(
        rows,
        temperature_N=torch.ones(2),
        top_p_N=torch.tensor([1.0, 0.5]),
        uniform_N=torch.tensor([0.95, 0.95], dtype=torch.float64),
    )
    assert ids.tolist() == [2, 0]
    np.testing.assert_allclose(logprobs, [math.log(0.1), 0.0], atol=1e-6)


def test_temperature_0_is_greedy_at_logprob_of_temperature_1():
    rows = torch.tensor([[0.1, 0.7, 0.2]]).log()
    ids, logprobs = drawn(rows, [0.99], temperature=0.0, top_p=0.5)
    assert ids.item() == 1
    assert logprobs.item() == pytest.approx(math.log(0.7), abs=1e-6)


def test_logits_that_are_not_finite_show_in_the_logprob():
    rows = torch.tensor([[0.0, math.nan, 1.0], [0.0, 0.0, 1.0]])
    logprobs = drawn(rows, [0.5, 0.5]).logprobs
    assert (math.isnan(logprobs[0]), math.isfinite(logprobs[1])) == (True, True)


def test_random_numbers_depend_on_the_whole_key_and_grow_at_the_end():
    assert uniforms((1, 2, 3), count=5).tolist() == uniforms((1, 2, 3), count=9).tolist()[:5]
    assert len({uniforms(key, count=1)[0] for key in ((1,), (1, 2), (2, 1), (2**40, 1))}) == 4

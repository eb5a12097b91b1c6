"""Losses against hand-worked numbers, TRL's published formulas written as slow loops, and their own
invariances."""

import pytest
import torch

from seminar.learn.losses import denominator, imitation_loss, policy_loss

LOSSES = ["grpo", "dr_grpo", "dapo", "gspo"]
LENGTHS = torch.tensor([3, 1, 5, 2])
SAMPLE = torch.repeat_interleave(torch.arange(4), LENGTHS)


def batch(seed=0):
    g = torch.Generator().manual_seed(seed)
    logprobs = -torch.rand(11, generator=g, dtype=torch.float64)
    old = logprobs + 0.4 * torch.randn(11, generator=g, dtype=torch.float64)
    ref = logprobs + 0.4 * torch.randn(11, generator=g, dtype=torch.float64)
    advantage = torch.tensor([1.0, -0.5, 0.7, -2.0], dtype=torch.float64)[SAMPLE]
    return logprobs, old, ref, advantage


def run(
    loss, logprobs, old, ref, advantage, *, weight=None, sample=SAMPLE, lengths=LENGTHS, denom=None, beta=0.04
):
    weight = torch.ones(len(lengths), dtype=torch.float64) if weight is None else weight
    kept = float((weight[sample] != 0).sum())
    denom = denom or denominator(loss, samples=float(weight.sum()), tokens=kept, max_tokens=7)
    return policy_loss(
        logprobs,
        old_logprobs_C=old,
        ref_logprobs_C=ref,
        advantages_C=advantage,
        sample_C=sample,
        length_S=lengths,
        weight_S=weight,
        loss=loss,
        denominator=denom,
        clip_low=0.2,
        clip_high=0.2,
        beta=beta,
    )


def slow(loss, logprobs, old, ref, advantage, beta=0.04):
    """One sample at a time, as the papers write it."""
    total, start = 0.0, 0
    for length in LENGTHS.tolist():
        part = slice(start, start + length)
        start += length
        ratio = torch.exp(logprobs[part] - old[part])
        if loss == "gspo":
            ratio = torch.exp((logprobs[part] - old[part]).mean()).expand(length)
        a = advantage[part]
        term = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a)
        term = term + beta * (torch.exp(ref[part] - logprobs[part]) - (ref[part] - logprobs[part]) - 1)
        share = {"grpo": 1 / (4 * length), "gspo": 1 / (4 * length), "dr_grpo": 1 / (4 * 7), "dapo": 1 / 11}[
            loss
        ]
        total = total + (term * share).sum()
    return total


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_matches_a_slow_loop_in_value_and_gradient(loss):
    logprobs, old, ref, advantage = batch()
    ours, theirs = logprobs.clone().requires_grad_(), logprobs.clone().requires_grad_()
    a = run(loss, ours, old, ref, advantage).loss
    b = slow(loss, theirs, old, ref, advantage)
    a.backward()
    b.backward()
    torch.testing.assert_close(a, b, rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_on_policy_the_ratio_is_one_and_the_gradient_is_minus_the_advantage(loss):
    logprobs, _, _, advantage = batch()
    x = logprobs.clone().requires_grad_()
    result = run(loss, x, x.detach(), None, advantage, denom=1.0)
    result.loss.backward()
    share = 1 / LENGTHS[SAMPLE].double() if loss in ("grpo", "gspo") else torch.ones(11)
    torch.testing.assert_close(x.grad, -advantage * share, rtol=1e-10, atol=1e-12)
    assert result.sums["clipped"] == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_masked_samples_get_no_gradient_and_leave_no_nan_behind(loss):
    logprobs, old, ref, advantage = batch()
    logprobs[:3] = float("nan")
    ref[1] = float("inf")
    x = logprobs.clone().requires_grad_()
    result = run(loss, x, old, ref, advantage, weight=torch.tensor([0.0, 1, 1, 1], dtype=torch.float64))
    result.loss.backward()
    assert torch.isfinite(result.loss)
    assert result.sums["kl"] == result.sums["kl"]
    assert x.grad[:3].tolist() == [0, 0, 0]
    assert (x.grad[3:] != 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_masked_sample_leaves_the_denominator_too(loss):
    logprobs, old, ref, advantage = batch()
    masked = run(
        loss, logprobs, old, ref, advantage, weight=torch.tensor([1.0, 1, 0, 1], dtype=torch.float64)
    ).loss
    keep = SAMPLE != 2
    alone = run(
        loss,
        logprobs[keep],
        old[keep],
        ref[keep],
        advantage[keep],
        sample=torch.tensor([0, 0, 0, 1, 2, 2]),
        lengths=torch.tensor([3, 1, 2]),
    ).loss
    torch.testing.assert_close(masked, alone, rtol=1e-12, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_everything_masked_gives_zero(loss):
    logprobs, old, ref, advantage = batch()
    result = run(loss, logprobs, old, ref, advantage, weight=torch.zeros(4, dtype=torch.float64))
    assert float(result.loss) == 0.0


def test_penalty_is_exactly_zero_against_itself():
    logprobs, old, _, advantage = batch()
    assert run("grpo", logprobs, old, logprobs.clone(), advantage).sums["kl"] == 0.0


def test_imitation_is_the_mean_over_samples_of_the_mean_token_nll():
    logprobs = -torch.arange(1.0, 12.0)
    result = imitation_loss(
        logprobs, sample_C=SAMPLE, length_S=LENGTHS, weight_S=torch.ones(4), denominator=4.0
    )
    # samples: mean(1 2 3) = 2, 4, mean(5..9) = 7, mean(10 11) = 10.5; mean of them 5.875
    assert float(result.loss) == pytest.approx(5.875)
    assert result.sums["nll"] == 66

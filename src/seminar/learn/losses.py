"""Log-probabilities and advantages of packed tokens -> one loss and its sums. Log nothing, average nothing.

Every loss is a sum over trained tokens divided by a denominator that the caller fixes for the whole update,
so any split into micro-batches adds up to the same gradient.

| loss | token t of sample i counts | denominator | source |
|---|---|---|---|
| grpo | 1 / length_i | samples | Shao et al. 2024, eq. 3 |
| dr_grpo | 1 | samples * completion limit | Liu et al. 2025 |
| dapo | 1 | tokens | Yu et al. 2025, eq. 8 |
| gspo | 1 / length_i, ratio of whole sequences | samples | Zheng et al. 2025, eq. 5 |
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

LossType = Literal["grpo", "dr_grpo", "dapo", "gspo"]


class LossSums(NamedTuple):
    """A loss to call backward on, and sums over trained tokens to report (divide by `tokens` of the
    update)."""

    loss: Tensor
    """Scalar; already divided by the caller's denominator."""
    sums: dict[str, float]


def denominator(loss: LossType, *, samples: float, tokens: float, max_tokens: int) -> float:
    """What the summed token terms of one whole update are divided by; at least 1, so an empty update
    gives 0."""
    amount = {"grpo": samples, "gspo": samples, "dr_grpo": samples * max_tokens, "dapo": tokens}[loss]
    return max(amount, 1.0)


def policy_loss(
    logprobs_C: Tensor,
    *,
    old_logprobs_C: Tensor,
    ref_logprobs_C: Tensor | None,
    advantages_C: Tensor,
    sample_C: Tensor,
    length_S: Tensor,
    weight_S: Tensor,
    loss: LossType,
    denominator: float,
    clip_low: float,
    clip_high: float,
    beta: float,
) -> LossSums:
    """Clipped policy loss with the k3 penalty, summed over tokens and divided by `denominator`.

    ratio = exp(logprob - old); token loss = -min(ratio A, clip(ratio, 1 - low, 1 + high) A) + beta k3, with
    k3 = exp(ref - logprob) - (ref - logprob) - 1 (Schulman 2020). C tokens, S samples.
    Samples of weight 0 are masked by selection, so that a NaN in them cannot leak.
    """
    weight_C = weight_S[sample_C]
    on = weight_C != 0
    log_ratio_C = torch.where(on, logprobs_C - old_logprobs_C, 0.0)
    if loss == "gspo":
        mean_S = (
            torch.zeros_like(length_S, dtype=logprobs_C.dtype).index_add(0, sample_C, log_ratio_C) / length_S
        )
        log_ratio_C = mean_S[sample_C]
    ratio_C = log_ratio_C.exp()
    clipped_C = ratio_C.clamp(1 - clip_low, 1 + clip_high)
    term_C = -torch.minimum(ratio_C * advantages_C, clipped_C * advantages_C)
    sums = {"clipped": float(((ratio_C - clipped_C).abs() > 0)[on].sum())}
    if ref_logprobs_C is not None:
        gap_C = torch.where(on, ref_logprobs_C - logprobs_C, 0.0)
        k3_C = gap_C.exp() - gap_C - 1
        term_C = term_C + beta * k3_C
        sums["kl"] = float(k3_C.detach()[on].sum())
    share_C = weight_C / length_S[sample_C] if loss in ("grpo", "gspo") else weight_C
    total = torch.where(on, term_C * share_C, 0.0).sum() / denominator
    return LossSums(loss=total, sums=sums)


def imitation_loss(
    logprobs_C: Tensor, *, sample_C: Tensor, length_S: Tensor, weight_S: Tensor, denominator: float
) -> LossSums:
    """Mean token negative log-likelihood of each sample, summed over samples and divided by `denominator`."""
    share_C = (weight_S / length_S)[sample_C]
    total = -(logprobs_C * share_C).sum() / denominator
    return LossSums(loss=total, sums={"nll": float(-logprobs_C.detach().sum())})


def value_loss(
    values_C: Tensor,
    *,
    old_values_C: Tensor,
    targets_C: Tensor,
    sample_C: Tensor,
    weight_S: Tensor,
    clip: float,
    denominator: float,
) -> LossSums:
    """Clipped squared error of the value head, mean over each sample's units, summed and divided by
    `denominator`.

    unit loss = max((v - target)^2, (old + clamp(v - old, -clip, clip) - target)^2) / 2, as in OpenAI's
    baselines (Engstrom et al. 2020, section 3): a value gains nothing by moving further than `clip` in one
    update. Targets are NaN where the head is not asked (`learn.gae`); those tokens are masked by selection.
    """
    asked = ~torch.isnan(targets_C)
    target_C = torch.where(asked, targets_C, 0.0)
    near_C = old_values_C + (values_C - old_values_C).clamp(-clip, clip)
    term_C = torch.maximum((values_C - target_C) ** 2, (near_C - target_C) ** 2) / 2
    units_S = torch.zeros_like(weight_S).index_add(0, sample_C, asked.to(weight_S.dtype))
    share_C = (weight_S / units_S.clamp(min=1))[sample_C]
    on = asked & (share_C != 0)
    error_C = torch.where(on, (values_C - target_C).detach() ** 2, 0.0)
    total = torch.where(on, term_C * share_C, 0.0).sum() / denominator
    return LossSums(loss=total, sums={"error": float(error_C.sum()), "units": float(on.sum())})

"""Hidden states -> log-probabilities of the chosen tokens, chunk by chunk; no [C, V] tensor ever exists."""

from typing import Any

import torch
from torch import Tensor

CHUNK = 256
"""Tokens a chunk: large enough for the matrix product, small enough that chunk x vocabulary stays in the tens
of MB."""


def chosen_logprobs(hidden_CH: Tensor, weight_VH: Tensor, target_C: Tensor, temperature_C: Tensor) -> Tensor:
    """log softmax(hidden @ weight.T / temperature)[target], float32 [C]; gradient with respect to `hidden_CH`
    only.

    The head is frozen, so the gradient of every log-probability with respect to its own hidden state,
    (W[target] - softmax @ W) / temperature, is taken in the forward pass while the chunk's logits are at
    hand: two products a chunk in all, and the backward pass is one multiplication.
    """
    return _Chosen.apply(hidden_CH, weight_VH, target_C, temperature_C)  # type: ignore[no-untyped-call, no-any-return]


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, temperature: Tensor) -> Tensor:
        logprobs = torch.empty(len(target), dtype=torch.float32, device=hidden.device)
        slope = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        for start in range(0, len(target), CHUNK):
            part = slice(start, start + CHUNK)
            inverse = temperature[part].reciprocal()[:, None]
            logits = (hidden[part].to(weight.dtype) @ weight.T).float().mul_(inverse)
            total = logits.logsumexp(dim=-1, keepdim=True)
            chosen = logits.gather(1, target[part, None])
            logprobs[part] = (chosen - total).squeeze(1)
            if slope is not None:
                mean = logits.sub_(total).exp_().to(weight.dtype) @ weight
                slope[part] = (weight[target[part]] - mean) * inverse
        ctx.save_for_backward(*(() if slope is None else (slope,)))
        return logprobs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return (grads[0][:, None] * slope).to(slope.dtype), None, None, None

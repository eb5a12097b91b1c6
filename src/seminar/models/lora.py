"""Weights of one adapter: as PEFT holds them, one pair a linear layer, and as fused products take them."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel


class LoraPair(NamedTuple):
    """Live weights of one adapter at one linear layer: y += scale * (x @ A.T) @ B.T."""

    A: Tensor
    """[rank, in]"""
    B: Tensor
    """[out, rank]"""
    scale: float


class Lora(NamedTuple):
    """The low-rank part of one fused product: y += (x @ down.T) @ up, the scale folded into `up`."""

    down: Tensor
    """[sum of ranks, in]"""
    up: Tensor
    """[sum of ranks, out]: a block for each linear of the group, 0 elsewhere."""

    def add_(self, y_NO: Tensor, x_NI: Tensor) -> Tensor:
        """Add the low-rank part of `x` to `y` in place."""
        return y_NO.addmm_(F.linear(x_NI, self.down), self.up)


def join(members: Sequence[LoraPair | None], *, sizes: Sequence[int], dtype: torch.dtype) -> Lora:
    """The pairs of the linears that one product stands for, None where one has none; gradients pass through.

    `sizes` are the outputs of each linear.
    """
    found = [member for member in members if member is not None]
    blocks = [
        found[0].A.new_zeros(0, size) if member is None else (member.B * member.scale).T
        for member, size in zip(members, sizes, strict=True)
    ]
    return Lora(torch.cat([member.A for member in found]).to(dtype), torch.block_diag(*blocks).to(dtype))


def adapted(base: PreTrainedModel, config: LoraConfig, **options: Any) -> PeftModel:
    """PEFT's `get_peft_model` without the warning that it asks `base` by a name transformers will retire."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        model: PeftModel = get_peft_model(base, config, **options)
    return model

"""The forward and backward of one adapted linear layer, without an elementwise pass over its output.

PEFT holds the weights, their names and their file format; its layers get this forward in place of their own,
which scales, adds and casts in passes of their own. Same result (tests), fewer passes over memory.
"""

import warnings
from types import MethodType
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear
from torch import Tensor, nn
from transformers import PreTrainedModel


def adapted(base: PreTrainedModel, config: LoraConfig, **options: Any) -> PeftModel:
    """PEFT's `get_peft_model` without the warning that it asks `base` by a name transformers will retire."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        model: PeftModel = get_peft_model(base, config, **options)
    return model


def speed_up(layer: nn.Module) -> None:
    """Give a PEFT layer over a plain `nn.Linear` the forward of this module; other kinds keep their own."""
    if isinstance(layer, Linear) and type(layer.get_base_layer()) is nn.Linear:
        layer.forward = MethodType(_forward, layer)  # type: ignore[method-assign]


def _forward(layer: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    base = layer.base_layer
    name = layer.active_adapters[0] if layer.active_adapters else None
    if layer.disable_adapters or name not in layer.lora_A:
        return base(x)  # type: ignore[no-any-return]
    dropout = layer.lora_dropout[name]
    p = dropout.p if isinstance(dropout, nn.Dropout) and dropout.training else 0.0
    A, B = layer.lora_A[name].weight, layer.lora_B[name].weight
    return _Adapted.apply(x, base.weight, base.bias, A, B, layer.scaling[name], p)  # type: ignore[no-untyped-call, no-any-return]


class _Adapted(torch.autograd.Function):
    """y = x W' + bias + scale * drop(x) A' B'. W and bias are frozen; A and B live in float32, products run
    in W's dtype."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, A: Tensor, B: Tensor, scale: float, p: float
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        a, b = A.to(weight.dtype), B.to(weight.dtype)
        keep = torch.rand_like(rows, dtype=torch.float32).ge_(p).to(rows.dtype).div_(1 - p) if p > 0 else None
        seen = rows if keep is None else rows * keep
        inner = seen @ a.T
        y = nn.functional.linear(rows, weight, bias).addmm_(inner, b.T, alpha=scale)
        ctx.save_for_backward(seen, inner, weight, a, b, keep)
        ctx.scale, ctx.shape = scale, x.shape
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor, None, None]:
        seen, inner, weight, a, b, keep = ctx.saved_tensors
        grad = grads[0].reshape(-1, grads[0].shape[-1])
        back = grad @ b
        dA = (back.T @ seen).float().mul_(ctx.scale)
        dB = (grad.T @ inner).float().mul_(ctx.scale)
        dx = None
        if ctx.needs_input_grad[0]:
            dx = grad @ weight
            if keep is None:
                dx.addmm_(back, a, alpha=ctx.scale)
            else:
                dx.add_((back @ a).mul_(keep), alpha=ctx.scale)
            dx = dx.view(ctx.shape)
        return dx, None, None, dA, dB, None, None

"""A packed batch through a fused model of the Llama family, forward and backward.

The base is frozen, so a layer keeps for its backward pass what is dear to make again (inputs of norms, the
outputs of gate and up, queries, keys and values) and makes the rest anew: less than .6 of the memory
of the model's own modules in bfloat16 (tests), and fewer passes over it. Same log-probabilities and gradients
as plain PEFT in float32 (tests); in bfloat16 the low-rank part too is a bfloat16 product, as it is when the
engine samples.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from seminar.models.fused import Fused, Layer, LayerLora, Linear, norm
from seminar.models.lora import Lora


def hidden_states(
    fused: Fused,
    lora: Sequence[LayerLora],
    *,
    ids_N: Tensor,
    position_N: Tensor,
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    dropout: float,
) -> Tensor:
    """Last hidden states [N, hidden] under an adapter, one mapping a layer; empty ones: the bare base.

    `attend` takes queries [N, H, D], keys and values [N, K, D] of all tokens and returns [N, H, D].
    Dropout falls on the inputs of an adapter: one mask for all linears of a fused product.
    """
    cos, sin = fused.rotation(position_N)
    x = fused.embedding[ids_N]
    for layer, parts in zip(fused.layers, lora, strict=True):
        x = _layer(x, layer, parts, fused=fused, cos=cos, sin=sin, attend=attend, dropout=dropout)
    return rms_norm(x, x.shape[-1:], fused.norm, fused.eps)


def _layer(
    x: Tensor,
    layer: Layer,
    lora: LayerLora,
    *,
    fused: Fused,
    cos: Tensor,
    sin: Tensor,
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    dropout: float,
) -> Tensor:
    def product(x: Tensor, name: str, before: "_Before | None") -> Tensor:
        return _product(x, getattr(layer, name), lora.get(name), before, dropout)

    heads = product(x, "qkv", _Norm(layer.input_norm, fused.eps)).view(len(x), -1, fused.width)
    if layer.q_norm is None or layer.k_norm is None:
        turned, v = heads.split([fused.heads + fused.kv_heads, fused.kv_heads], dim=1)
    else:
        q, k, v = heads.split([fused.heads, fused.kv_heads, fused.kv_heads], dim=1)
        width = (fused.width,)
        normed = (rms_norm(q, width, layer.q_norm, fused.eps), rms_norm(k, width, layer.k_norm, fused.eps))
        turned = torch.cat(normed, dim=1)
    q, k = _Rotate.apply(turned, cos, sin).split([fused.heads, fused.kv_heads], dim=1)  # type: ignore[no-untyped-call]
    seen = attend(q, k, v)
    x = x + product(seen.reshape(len(x), -1), "o", None)
    gates = product(x, "gate_up", _Norm(layer.output_norm, fused.eps))
    return x + product(gates, "down", _SwiGLU())


class _Before(Protocol):
    """What a product does to its input first; made anew in the backward pass."""

    def __call__(self, x: Tensor) -> Tensor:
        """[N, .] -> [N, in]."""
        ...

    def backward(self, grad: Tensor, x: Tensor) -> Tensor:
        """Gradient with respect to `x` of a loss whose gradient with respect to the output is `grad`."""
        ...


class _Norm(NamedTuple):
    """RMS norm (Zhang and Sennrich 2019)."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return norm(x, self.weight, self.eps)

    def backward(self, grad: Tensor, x: Tensor) -> Tensor:
        wide = x.float()
        inverse = wide.square().mean(dim=-1, keepdim=True).add_(self.eps).rsqrt_()
        slope = grad.float().mul_(self.weight)
        along = (slope * wide).mean(dim=-1, keepdim=True).mul_(inverse.square())
        return slope.addcmul_(wide, along, value=-1).mul_(inverse).to(x.dtype)


class _SwiGLU:
    """silu(gate) * up of [gate, up] (Shazeer 2020)."""

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return silu(gate).mul_(up)

    def backward(self, grad: Tensor, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return torch.cat((torch.ops.aten.silu_backward(grad * up, gate), silu(gate).mul_(grad)), dim=-1)


def _product(x: Tensor, linear: Linear, lora: Lora | None, before: _Before | None, dropout: float) -> Tensor:
    down, up = (None, None) if lora is None else lora
    return _Product.apply(x, down, up, linear, before, dropout)  # type: ignore[no-untyped-call, no-any-return]


class _Product(torch.autograd.Function):
    """y = before(x) W' + bias + drop(before(x)) down' up. W and bias are frozen."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        down: Tensor | None,
        up: Tensor | None,
        linear: Linear,
        before: _Before | None,
        dropout: float,
    ) -> Tensor:
        seen = x if before is None else before(x)
        y = linear(seen)
        inner = keep = None
        if down is not None and up is not None:
            if dropout:
                keep = torch.rand_like(seen, dtype=torch.float32) >= dropout
            inner = _drop(seen, keep, dropout) @ down.T
            y.addmm_(inner, up)
        ctx.save_for_backward(x, down, up, inner, keep)
        ctx.linear, ctx.before, ctx.dropout = linear, before, dropout
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, down, up, inner, keep = ctx.saved_tensors
        slope = grad @ ctx.linear.weight if ctx.needs_input_grad[0] else None
        d_down = d_up = None
        if inner is not None:
            back = grad @ up.T
            d_up = inner.T @ grad
            d_down = back.T @ _drop(x if ctx.before is None else ctx.before(x), keep, ctx.dropout)
            if slope is not None and keep is None:
                slope.addmm_(back, down)
            elif slope is not None:
                slope += _drop(back @ down, keep, ctx.dropout)
        if slope is not None and ctx.before is not None:
            slope = ctx.before.backward(slope, x)
        return slope, d_down, d_up, None, None, None


def _drop(x: Tensor, keep: Tensor | None, dropout: float) -> Tensor:
    return x if keep is None else x * keep / (1 - dropout)


class _Rotate(torch.autograd.Function):
    """Rotary position embedding (Su et al. 2021) of heads [N, H, width]."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return rotate(heads, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return rotate(grads[0], cos, -sin), None, None


def rotate(heads_NHD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding; `cos` and `sin` as `Fused.rotation` gives them."""
    half = heads_NHD.shape[-1] // 2
    swapped = torch.cat((heads_NHD[..., half:], heads_NHD[..., :half]), dim=-1)
    return torch.addcmul(heads_NHD * cos, swapped, sin)

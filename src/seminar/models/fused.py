"""A frozen model of the Llama family in, its weights fused for decoding out, and LoRA snapshots to match."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from seminar.errors import ModelError
from seminar.models.policy import LoraPair

FAMILY = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Each `model_type` whose layers are: norm, q k v, rotation, attention, o, norm, silu(gate) * up, down."""

PACK_LIMIT_BYTES = 2 << 30
"""Largest base that is copied into oneDNN's own order on a CPU (ours: its products then take .6 to .8 of the
time at 16 to 64 rows; of a larger base a second copy costs more than that brings)."""

GROUPS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""Fused product -> the linears of a layer it stands for, in the order of their outputs."""


class Linear(NamedTuple):
    """One frozen product: y = x @ weight.T + bias."""

    weight: Tensor
    """[out, in]; in oneDNN's own order where `packed`."""
    bias: Tensor | None
    sizes: tuple[int, ...]
    """Outputs of each linear that was fused into it."""
    packed: bool

    def __call__(self, x_NI: Tensor) -> Tensor:
        """[N, in] -> [N, out]."""
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, self.weight, self.bias, "none", [], "")
            return y
        return F.linear(x_NI, self.weight, self.bias)


class Lora(NamedTuple):
    """The low-rank part of one fused product: y += (x @ down.T) @ up, the scale folded into `up`."""

    down: Tensor
    """[sum of ranks, in]"""
    up: Tensor
    """[sum of ranks, out]: a block for each linear of the group, 0 elsewhere."""

    def add_(self, y_NO: Tensor, x_NI: Tensor) -> Tensor:
        """Add the low-rank part of `x` to `y` in place."""
        return y_NO.addmm_(F.linear(x_NI, self.down), self.up)


class Layer(NamedTuple):
    """One decoder layer."""

    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    input_norm: Tensor
    output_norm: Tensor
    """Weight of the norm before the feed-forward part."""
    q_norm: Tensor | None
    """[head width] (Qwen3); None in the other models of the family."""
    k_norm: Tensor | None


class Fused(NamedTuple):
    """The whole frozen model."""

    layers: tuple[Layer, ...]
    embedding: Tensor
    """[V, hidden]"""
    norm: Tensor
    head: Linear
    packed: bool


LayerLora = Mapping[str, Lora]
"""Name of a fused product (`qkv`, `o`, `gate_up`, `down`) -> its low-rank part, where the adapter has one."""


def misfit(model: PreTrainedModel) -> str | None:
    """Why `fuse` cannot stand for this model; None where it can."""
    config: Any = model.config
    if config.model_type not in FAMILY:
        return f"model_type {config.model_type} is not of the Llama family"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act}"
    windows = getattr(config, "layer_types", None) or ()
    if any(kind != "full_attention" for kind in windows) or (
        config.model_type == "mistral" and config.sliding_window is not None
    ):
        return "it has sliding windows"
    if config.rope_parameters["rope_type"] in ("dynamic", "longrope"):
        return f"its rotation changes with length ({config.rope_parameters['rope_type']})"
    body: Any = model.base_model
    linears = [_linear(layer, path) for layer in body.layers for paths in GROUPS.values() for path in paths]
    if any(type(linear) is not nn.Linear or linear.weight.dtype != model.dtype for linear in linears):
        return "its linear layers are quantised or of mixed types"
    return None


def fuse(model: PreTrainedModel) -> Fused:
    """Fuse q k v and gate up of every layer.

    On a CPU a base up to PACK_LIMIT_BYTES is copied once more, in oneDNN's own order. Elsewhere a fused
    weight takes the place of its parts: the model's own parameters become slices of it, and the base exists
    once.
    """
    packed = _can_pack(model)
    body: Any = model.base_model
    return Fused(
        layers=tuple(_layer(layer, packed=packed) for layer in body.layers),
        embedding=body.embed_tokens.weight.detach(),
        norm=body.norm.weight.detach(),
        head=_fused([model.get_output_embeddings()], packed=packed),
        packed=packed,
    )


def snapshot(pairs: Mapping[str, LoraPair], *, fused: Fused, name: str) -> tuple[LayerLora, ...]:
    """Copy an adapter's live weights, one mapping a layer, into the compute dtype of the base.

    Raises ModelError where the adapter touches a layer that is not adapted here.
    """
    left = dict(pairs)
    layers = []
    for index, layer in enumerate(fused.layers):
        found = {}
        for group, paths in GROUPS.items():
            members = [left.pop(f"model.layers.{index}.{path}", None) for path in paths]
            if any(member is not None for member in members):
                found[group] = _lora(members, sizes=getattr(layer, group).sizes, like=fused.embedding)
        layers.append(found)
    if left:
        known = ", ".join(path for paths in GROUPS.values() for path in paths)
        raise ModelError(
            f"adapter {name!r} adapts {', '.join(sorted(left)[:3])}; this engine adapts {known}. Train the "
            "adapter on those."
        )
    return tuple(layers)


def _layer(layer: Any, *, packed: bool) -> Layer:
    attention = layer.self_attn
    return Layer(
        **{name: _fused([_linear(layer, p) for p in paths], packed=packed) for name, paths in GROUPS.items()},
        input_norm=layer.input_layernorm.weight.detach(),
        output_norm=layer.post_attention_layernorm.weight.detach(),
        q_norm=attention.q_norm.weight.detach() if hasattr(attention, "q_norm") else None,
        k_norm=attention.k_norm.weight.detach() if hasattr(attention, "k_norm") else None,
    )


def _fused(linears: Sequence[Any], *, packed: bool) -> Linear:
    bias = None if linears[0].bias is None else torch.cat([linear.bias.detach() for linear in linears])
    sizes = tuple(linear.out_features for linear in linears)
    if len(linears) == 1:
        weight = linears[0].weight.detach()
    else:
        weight = torch.cat([linear.weight.detach() for linear in linears])
    if packed:
        weight = torch.ops.mkldnn._reorder_linear_weight(weight)
    elif len(linears) > 1:
        for linear, part in zip(linears, weight.split(sizes), strict=True):
            linear.weight.data = part
    return Linear(weight, bias, sizes, packed)


def _can_pack(model: PreTrainedModel) -> bool:
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    known = model.dtype == torch.float32 or (
        model.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    return bool(known and size <= PACK_LIMIT_BYTES)


def _linear(layer: nn.Module, path: str) -> Any:
    """The frozen linear at `path`, from under its adapters where it has some."""
    module = layer.get_submodule(path)
    return getattr(module, "base_layer", module)


def _lora(members: Sequence[LoraPair | None], *, sizes: Sequence[int], like: Tensor) -> Lora:
    with torch.no_grad():
        down = torch.cat([member.A for member in members if member is not None])
        blocks = [
            torch.zeros(0, size, device=like.device) if member is None else (member.B * member.scale).T
            for member, size in zip(members, sizes, strict=True)
        ]
        return Lora(down.to(like.dtype, copy=True), torch.block_diag(*blocks).to(like.dtype))

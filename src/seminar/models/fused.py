"""A frozen model of the Llama family in, its weights fused out, and an adapter's low-rank parts to match."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from seminar.errors import ModelError
from seminar.models.lora import Lora, LoraPair, join

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
    packed: bool = False

    def __call__(self, x_NI: Tensor) -> Tensor:
        """[N, in] -> [N, out]."""
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, self.weight, self.bias, "none", [], "")
            return y
        return F.linear(x_NI, self.weight, self.bias)


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
    rotary: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    """A tensor of the model's dtype and positions [1, N] -> cosines and sines, [1, N, width] each."""
    heads: int
    """Query heads."""
    kv_heads: int
    width: int
    """Width of a head."""
    eps: float
    """Of the norms."""
    kind: str
    """The `model_type`."""
    packed: bool = False

    def rotation(self, position_N: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [N, 1, width]; the first half of the sines carries the minus of the rotation."""
        cos, sin = self.rotary(self.embedding[:1], position_N[None])
        half = self.width // 2
        return cos[0, :, None], torch.cat((-sin[0, :, None, :half], sin[0, :, None, half:]), dim=-1)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last dimension (Zhang and Sennrich 2019), without autograd.

    The kernel below `torch.nn.functional.rms_norm`, which on a CPU takes five passes instead.
    """
    y: Tensor = torch.ops.aten._fused_rms_norm(x, [x.shape[-1]], weight, eps)[0]
    return y


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
    """Fuse q k v and gate up of every layer of a model that `misfit` finds no fault with.

    A fused weight takes the place of its parts: the model's own parameters become slices of it, and the base
    exists once.
    """
    body: Any = model.base_model
    config: Any = model.config
    return Fused(
        layers=tuple(_layer(layer) for layer in body.layers),
        embedding=body.embed_tokens.weight.detach(),
        norm=body.norm.weight.detach(),
        head=_fused([model.get_output_embeddings()]),
        rotary=body.rotary_emb,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        width=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        eps=config.rms_norm_eps,
        kind=config.model_type,
    )


def packed(fused: Fused) -> Fused:
    """The same with products copied into oneDNN's own order, where that is possible and brings something."""
    linears = [fused.head, *(getattr(layer, name) for layer in fused.layers for name in GROUPS)]
    size = sum(linear.weight.numel() * linear.weight.element_size() for linear in linears)
    if not _can_pack(fused.embedding) or size > PACK_LIMIT_BYTES:
        return fused
    return fused._replace(
        layers=tuple(
            layer._replace(
                qkv=_pack(layer.qkv), o=_pack(layer.o), gate_up=_pack(layer.gate_up), down=_pack(layer.down)
            )
            for layer in fused.layers
        ),
        head=_pack(fused.head),
        packed=True,
    )


def adapt(fused: Fused, pairs: Mapping[str, LoraPair], *, name: str) -> tuple[LayerLora, ...]:
    """The low-rank parts of an adapter, a mapping a layer, in the dtype of the base; gradients pass through.

    Raises ModelError where the adapter touches a layer that is not adapted here.
    """
    left = dict(pairs)
    layers = []
    for index, layer in enumerate(fused.layers):
        found = {}
        for group, paths in GROUPS.items():
            members = [left.pop(f"model.layers.{index}.{path}", None) for path in paths]
            if any(member is not None for member in members):
                found[group] = join(members, sizes=getattr(layer, group).sizes, dtype=fused.embedding.dtype)
        layers.append(found)
    if left:
        known = ", ".join(path for paths in GROUPS.values() for path in paths)
        raise ModelError(
            f"adapter {name!r} adapts {', '.join(sorted(left)[:3])}; {known} can be. "
            "Train the adapter on those."
        )
    return tuple(layers)


def _layer(layer: Any) -> Layer:
    attention = layer.self_attn
    return Layer(
        **{name: _fused([_linear(layer, path) for path in paths]) for name, paths in GROUPS.items()},
        input_norm=layer.input_layernorm.weight.detach(),
        output_norm=layer.post_attention_layernorm.weight.detach(),
        q_norm=attention.q_norm.weight.detach() if hasattr(attention, "q_norm") else None,
        k_norm=attention.k_norm.weight.detach() if hasattr(attention, "k_norm") else None,
    )


def _fused(linears: Sequence[Any]) -> Linear:
    bias = None if linears[0].bias is None else torch.cat([linear.bias.detach() for linear in linears])
    sizes = tuple(linear.out_features for linear in linears)
    if len(linears) == 1:
        return Linear(linears[0].weight.detach(), bias, sizes)
    weight = torch.cat([linear.weight.detach() for linear in linears])
    for linear, part in zip(linears, weight.split(sizes), strict=True):
        linear.weight.data = part
    return Linear(weight, bias, sizes)


def _can_pack(like: Tensor) -> bool:
    if like.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return like.dtype == torch.float32 or (
        like.dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


def _pack(linear: Linear) -> Linear:
    return linear._replace(weight=torch.ops.mkldnn._reorder_linear_weight(linear.weight), packed=True)


def _linear(layer: nn.Module, path: str) -> Any:
    """The frozen linear at `path`, from under its adapters where it has some."""
    module = layer.get_submodule(path)
    return getattr(module, "base_layer", module)

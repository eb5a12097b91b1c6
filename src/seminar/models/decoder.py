"""A Llama-family model and token ids in, next-token logits out: prompts once, then one token a row a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu
from transformers import PreTrainedModel

from seminar.models.fused import Layer, LayerLora, Linear, Lora, fuse, snapshot
from seminar.models.kv import Cache, Heads, Room
from seminar.models.policy import LoraPair

PREFILL_TOKENS = 2048
"""Prompt tokens in one forward; bounds the memory of activations, and the products are large by then."""


class FusedDecoder:
    """Decodes a model that `misfit` finds no fault with."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Fuse the weights of `model`."""
        self.model = model
        self.fused = fuse(model)
        config: Any = model.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.heads = Heads(config.num_hidden_layers, config.num_key_value_heads, width)
        self.name = (
            f"fused ({config.model_type}, {'oneDNN order' if self.fused.packed else 'shared weights'})"
        )

    def snapshot(self, pairs: Mapping[str, LoraPair], *, name: str) -> tuple[LayerLora, ...]:
        """Copy of an adapter's live weights."""
        return snapshot(pairs, fused=self.fused, name=name)

    @contextmanager
    def open(
        self, adapter: str | None, weights: tuple[LayerLora, ...] | None, *, room: Room
    ) -> Iterator["FusedRows"]:
        """Rows under the adapter whose snapshot is `weights`; None: the bare base."""
        with torch.inference_mode():
            yield FusedRows(self, lora=weights or ({},) * len(self.fused.layers), room=room)


class FusedRows:
    """Rows in flight under one adapter."""

    joins = True
    """New prompts may be admitted while others are in flight."""

    def __init__(self, decoder: FusedDecoder, *, lora: Sequence[LayerLora], room: Room) -> None:
        """Nothing in flight yet."""
        config: Any = decoder.model.config
        body: Any = decoder.model.base_model
        self.fused, self.lora = decoder.fused, lora
        self.heads, self.kv_heads, self.width = config.num_attention_heads, *decoder.heads[1:]
        self.eps = config.rms_norm_eps
        self.cache = Cache(decoder.heads, room, like=self.fused.embedding)
        positions = torch.arange(room.prompt_tokens + room.tokens, device=self.fused.embedding.device)
        cos, sin = body.rotary_emb(self.fused.embedding[:1], positions[None])
        half = self.width // 2
        self.cos, self.sin = cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)

    def admit(self, prompts: Sequence[Sequence[int]], samples: Sequence[int]) -> Tensor:
        """Prefill prompts, each once, and add `samples` rows of each; logits [P, V] of the first token."""
        places = self.cache.admit([len(p) for p in prompts], samples)
        parts, first = [], 0
        while first < len(prompts):
            last, total = first + 1, len(prompts[first])
            while last < len(prompts) and total + len(prompts[last]) <= PREFILL_TOKENS:
                total, last = total + len(prompts[last]), last + 1
            where = slice(places.start + first, places.start + last)
            parts.append(self._prefill(prompts[first:last], where))
            first = last
        return self._head(torch.cat(parts))

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed one token a row; logits [N, V] of the next."""
        position_N = self.cache.next_column()
        ids_N = torch.tensor(ids, device=position_N.device)
        return self._head(self._layers(ids_N, position_N, self.cache.attend))

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; rows not named leave."""
        self.cache.keep(order)

    def _prefill(self, prompts: Sequence[Sequence[int]], where: slice) -> Tensor:
        """Hidden states [P, hidden] of each prompt's last token; only attention sees padding, at right."""
        device = self.cos.device
        lengths = [len(p) for p in prompts]
        longest, total = max(lengths), sum(lengths)
        ends = torch.tensor(lengths).cumsum(0)
        ids_N = torch.tensor([i for p in prompts for i in p], device=device)
        position_N = torch.cat([torch.arange(n) for n in lengths]).to(device)
        even = total == longest * len(prompts)
        spread = (ends - torch.tensor(lengths))[:, None] + torch.arange(longest)
        spread = spread.clamp(max=total - 1).flatten().to(device)
        packed = torch.cat([torch.arange(n) + i * longest for i, n in enumerate(lengths)]).to(device)

        def pad(x_NKD: Tensor) -> Tensor:
            x = x_NKD if even else x_NKD.index_select(0, spread)
            return x.view(len(prompts), longest, -1, self.width).transpose(1, 2)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = pad(q), pad(k), pad(v)
            self.cache.write_prompts(layer, where, k, v)
            out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            out = out.transpose(1, 2).reshape(len(prompts) * longest, -1)
            return out if even else out.index_select(0, packed)

        return self._layers(ids_N, position_N, attend, last=ends.to(device) - 1)

    def _layers(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
        *,
        last: Tensor | None = None,
    ) -> Tensor:
        """All layers; after the last attention only the tokens `last` go on."""
        x = self.fused.embedding[ids_N]
        cos, sin = self.cos[position_N, None], self.sin[position_N, None]
        split = self.heads + self.kv_heads
        for index, (layer, lora) in enumerate(zip(self.fused.layers, self.lora, strict=True)):
            normed = rms_norm(x, x.shape[-1:], layer.input_norm, self.eps)
            heads = _product(normed, layer.qkv, lora.get("qkv")).view(len(x), -1, self.width)
            self._norm_heads(heads, layer)
            rotated = _rotate(heads[:, :split], cos, sin)
            seen = attend(index, rotated[:, : self.heads], rotated[:, self.heads :], heads[:, split:])
            if last is not None and index == len(self.fused.layers) - 1:
                seen, x = seen[last], x[last]
            x = _product(seen, layer.o, lora.get("o")).add_(x)
            normed = rms_norm(x, x.shape[-1:], layer.output_norm, self.eps)
            gate, up = _product(normed, layer.gate_up, lora.get("gate_up")).chunk(2, dim=-1)
            x = _product(silu(gate).mul_(up), layer.down, lora.get("down")).add_(x)
        return x

    def _norm_heads(self, heads_NHD: Tensor, layer: Layer) -> None:
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = heads_NHD[:, : self.heads], heads_NHD[:, self.heads : self.heads + self.kv_heads]
            q.copy_(rms_norm(q, (self.width,), layer.q_norm, self.eps))
            k.copy_(rms_norm(k, (self.width,), layer.k_norm, self.eps))

    def _head(self, x: Tensor) -> Tensor:
        return self.fused.head(rms_norm(x, x.shape[-1:], self.fused.norm, self.eps))


def _product(x: Tensor, linear: Linear, lora: Lora | None) -> Tensor:
    y = linear(x)
    return y if lora is None else lora.add_(y, x)


def _rotate(heads_NHD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding; the first half of `sin` carries the minus of the rotation."""
    half = heads_NHD.shape[-1] // 2
    swapped = torch.cat((heads_NHD[..., half:], heads_NHD[..., :half]), dim=-1)
    return torch.addcmul(heads_NHD * cos, swapped, sin)

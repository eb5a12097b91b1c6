"""A Llama-family model and token ids in, next-token logits out: prompts once, then one token a row a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from seminar.models.forward import rotate
from seminar.models.fused import Fused, Layer, LayerLora, Linear, adapt, norm, packed
from seminar.models.kv import Cache, Heads, Room
from seminar.models.lora import Lora, LoraPair

PREFILL_TOKENS = 2048
"""Prompt tokens in one forward; bounds the memory of activations, and the products are large by then."""


class FusedDecoder:
    """Decodes a fused model."""

    def __init__(self, fused: Fused) -> None:
        """Copy the weights into the order in which products of few rows are fast, where there is one."""
        self.fused = packed(fused)
        self.heads = Heads(len(fused.layers), fused.kv_heads, fused.width)
        self.name = f"fused ({fused.kind}, {'oneDNN order' if self.fused.packed else 'shared weights'})"

    def snapshot(self, pairs: Mapping[str, LoraPair], *, name: str) -> tuple[LayerLora, ...]:
        """Copy of an adapter's live weights."""
        with torch.no_grad():
            return adapt(self.fused, pairs, name=name)

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
        self.fused, self.lora = decoder.fused, lora
        self.cache = Cache(decoder.heads, room, like=self.fused.embedding)
        positions = torch.arange(room.prompt_tokens + room.tokens, device=self.fused.embedding.device)
        self.cos, self.sin = self.fused.rotation(positions)

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
            return x.view(len(prompts), longest, -1, self.fused.width).transpose(1, 2)

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
        cos, sin = self.cos[position_N], self.sin[position_N]
        heads, width, eps = self.fused.heads, self.fused.width, self.fused.eps
        split = heads + self.fused.kv_heads
        for index, (layer, lora) in enumerate(zip(self.fused.layers, self.lora, strict=True)):
            normed = norm(x, layer.input_norm, eps)
            found = _product(normed, layer.qkv, lora.get("qkv")).view(len(x), -1, width)
            self._norm_heads(found, layer)
            turned = rotate(found[:, :split], cos, sin)
            seen = attend(index, turned[:, :heads], turned[:, heads:], found[:, split:])
            if last is not None and index == len(self.fused.layers) - 1:
                seen, x = seen[last], x[last]
            x = _product(seen, layer.o, lora.get("o")).add_(x)
            normed = norm(x, layer.output_norm, eps)
            gate, up = _product(normed, layer.gate_up, lora.get("gate_up")).chunk(2, dim=-1)
            x = _product(silu(gate).mul_(up), layer.down, lora.get("down")).add_(x)
        return x

    def _norm_heads(self, heads_NHD: Tensor, layer: Layer) -> None:
        if layer.q_norm is not None and layer.k_norm is not None:
            queries, eps = self.fused.heads, self.fused.eps
            q, k = heads_NHD[:, :queries], heads_NHD[:, queries : queries + self.fused.kv_heads]
            q.copy_(norm(q, layer.q_norm, eps))
            k.copy_(norm(k, layer.k_norm, eps))

    def _head(self, x: Tensor) -> Tensor:
        return self.fused.head(norm(x, self.fused.norm, self.fused.eps))


def _product(x: Tensor, linear: Linear, lora: Lora | None) -> Tensor:
    y = linear(x)
    return y if lora is None else lora.add_(y, x)

"""A Llama-family model and token ids in, next-token logits out: prompts once, then one token a row a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import silu

from seminar.models.attention import attention_of
from seminar.models.forward import rotate
from seminar.models.fused import Fused, Layer, LayerLora, Linear, adapt, norm, packed
from seminar.models.kv import Cache, Heads, Room
from seminar.models.lora import Lora, LoraPair
from seminar.prefixes import shared_prefix
from seminar.types import Row

PREFILL_TOKENS = 4096
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
        order = sorted(range(len(prompts)), key=lambda p: tuple(prompts[p]))
        parts, first = [], 0
        while first < len(order):
            last, total = first + 1, len(prompts[order[first]])
            while last < len(order) and total + len(prompts[order[last]]) <= PREFILL_TOKENS:
                total, last = total + len(prompts[order[last]]), last + 1
            chosen = order[first:last]
            where = torch.tensor(chosen, device=self.cos.device) + places.start
            parts.append(self._prefill([prompts[p] for p in chosen], where))
            first = last
        hidden = torch.cat(parts)
        sorted_back = torch.tensor(order, device=hidden.device).argsort()
        return self._head(hidden[sorted_back])

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed one token a row; logits [N, V] of the next."""
        position_N = self.cache.next_column()
        ids_N = torch.tensor(ids, device=position_N.device)
        return self._head(self._layers(ids_N, position_N, self.cache.attend))

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; rows not named leave."""
        self.cache.keep(order)

    def _prefill(self, prompts: Sequence[Sequence[int]], where: Tensor) -> Tensor:
        """Hidden states [P, hidden] of each prompt's last token; what neighbours begin with is run once."""
        device = self.cos.device
        shared = shared_prefix(prompts)
        rows: list[Row] = []
        ids: list[int] = []
        positions: list[int] = []
        place: list[list[int]] = []
        for prefix, members in groupby(prompts, key=lambda prompt: tuple(prompt[:shared])):
            start, rests = len(ids), [prompt[shared:] for prompt in members]
            ids += prefix
            positions += range(shared)
            for rest in rests:
                place.append([*range(start, start + shared), *range(len(ids), len(ids) + len(rest))])
                ids += rest
                positions += range(shared, shared + len(rest))
            rows.append(Row(start=start, prompt=shared, lengths=tuple(map(len, rests))))
        longest = max(map(len, prompts))
        spread = torch.tensor([row + row[-1:] * (longest - len(row)) for row in place], device=device)
        look = attention_of(rows, device=device, dtype=self.fused.embedding.dtype)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.cache.write_prompts(layer, where, k[spread].transpose(1, 2), v[spread].transpose(1, 2))
            return look(q, k, v).flatten(1)

        last = torch.tensor([row[-1] for row in place], device=device)
        ids_N, position_N = torch.tensor(ids, device=device), torch.tensor(positions, device=device)
        return self._layers(ids_N, position_N, attend, last=last)

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

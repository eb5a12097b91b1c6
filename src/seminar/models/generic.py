"""Any transformers causal LM and ids in, next-token logits out, by the model's own forward and cache."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from seminar.models.kv import Heads, Room
from seminar.models.lora import LoraPair
from seminar.models.policy import Policy


class GenericDecoder:
    """Decodes whatever transformers can run."""

    def __init__(self, policy: Policy) -> None:
        """Nothing is copied."""
        self.policy = policy
        self.name = f"generic ({policy.misfit})"
        config = policy.base.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.heads = Heads(config.num_hidden_layers, heads, width)

    def snapshot(self, pairs: Mapping[str, LoraPair], *, name: str) -> dict[str, LoraPair]:
        """Copy of an adapter's live weights."""
        return {
            path: LoraPair(p.A.detach().clone(), p.B.detach().clone(), p.scale) for path, p in pairs.items()
        }

    @contextmanager
    def open(
        self, adapter: str | None, weights: Mapping[str, LoraPair] | None, *, room: Room
    ) -> "Iterator[GenericRows]":
        """Rows under the adapter, which speaks with the snapshot `weights` until the block ends."""
        live = {} if adapter is None else self.policy.adapter(adapter)
        now = self.snapshot(live, name="")
        with torch.no_grad(), self.policy.active(adapter):
            _write(weights or {}, live)
            try:
                yield GenericRows(self.policy.base)
            finally:
                _write(now, live)


class GenericRows:
    """Rows in flight under whatever adapter is active while they are.

    Prompts of one admission are padded on the left, as by transformers' `generate`: padding is masked, and
    positions count real tokens only, so that a row's logits do not depend on its batch.
    """

    joins = False
    """New prompts wait until all rows have left."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Nothing in flight yet."""
        self.model = model
        known = inspect.signature(type(model).forward).parameters
        inner = inspect.signature(type(model.base_model).forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"
        self._extra: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self._positions = "position_ids" in known or "position_ids" in inner

    def admit(self, prompts: Sequence[Sequence[int]], samples: Sequence[int]) -> Tensor:
        """Prefill prompts, each once, and make `samples` rows of each; logits [P, V] of the first token."""
        device = self.model.device
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
        self._mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
        self._cache = DynamicCache(config=self.model.config)
        logits = self._forward(ids, (self._mask.cumsum(-1) - 1).clamp(min=0))
        rows = torch.arange(len(prompts), device=device).repeat_interleave(
            torch.tensor(samples, device=device)
        )
        self._select(rows)
        return logits

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed one token a row; logits [N, V] of the next."""
        self._mask = torch.cat((self._mask, self._mask.new_ones(len(ids), 1)), dim=1)
        ids_N1 = torch.tensor(ids, device=self.model.device)[:, None]
        return self._forward(ids_N1, self._mask.sum(dim=-1, keepdim=True) - 1)

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; rows not named leave."""
        if list(order) != list(range(len(self._mask))):
            self._select(torch.tensor(order, dtype=torch.long, device=self.model.device))

    def _forward(self, ids_NT: Tensor, position_NT: Tensor) -> Tensor:
        positions = {"position_ids": position_NT} if self._positions else {}
        output = self.model(
            input_ids=ids_NT,
            attention_mask=self._mask,
            use_cache=True,
            **{self._cache_name: self._cache},
            **positions,
            **self._extra,
        )
        return output.logits[:, -1]  # type: ignore[no-any-return]

    def _select(self, rows: Tensor) -> None:
        self._cache.batch_select_indices(rows)
        self._mask = self._mask[rows]


def _write(source: Mapping[str, LoraPair], target: Mapping[str, LoraPair]) -> None:
    for path, pair in target.items():
        pair.A.copy_(source[path].A)
        pair.B.copy_(source[path].B)

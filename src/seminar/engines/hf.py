"""Requests in, completions out, in this process: a transformers model and its adapters, on a CPU or a GPU."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from seminar.engines.checks import check_prompt, check_sampling
from seminar.engines.sampling import draw, uniforms
from seminar.errors import ConfigError, DivergenceError
from seminar.models.decoder import FusedDecoder
from seminar.models.generic import GenericDecoder
from seminar.models.kv import Heads, Room, fill_holes
from seminar.models.lora import LoraPair
from seminar.models.policy import Policy
from seminar.types import Completion, Request

CPU_ROWS, GPU_ROWS = 128, 512
"""Rows in flight unless told otherwise (ours: on a CPU the products gain nothing from more)."""
CPU_KV_BYTES = 1 << 30
"""Room for keys and values on a CPU unless told otherwise; on a GPU it is a quarter of its memory (ours)."""


class RowsInFlight(Protocol):
    """Rows that grow token by token, all under one adapter."""

    joins: bool
    """Whether prompts may be admitted while rows are in flight."""

    def admit(self, prompts: Sequence[Sequence[int]], samples: Sequence[int]) -> Tensor:
        """Prefill prompts, each once, and add `samples` rows of each; logits [P, V] of the first token."""
        ...

    def step(self, ids: Sequence[int]) -> Tensor:
        """Feed one token a row; logits [N, V] of the next."""
        ...

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; rows not named leave."""
        ...


class Decoder(Protocol):
    """Turns a frozen base and snapshots of adapters into rows in flight."""

    name: str
    heads: Heads

    def snapshot(self, pairs: Mapping[str, LoraPair], *, name: str) -> Any:
        """Copy of an adapter's live weights, in the decoder's own form."""
        ...

    def open(self, adapter: str | None, weights: Any, *, room: Room) -> AbstractContextManager[RowsInFlight]:
        """Rows under an adapter whose snapshot is `weights`; None: the bare base."""
        ...


class _Served(NamedTuple):
    version: int
    weights: Any


@dataclass(slots=True)
class _Row:
    """One completion while it is written."""

    request: Request
    uniforms: np.ndarray
    """The random numbers of its tokens, in order."""
    job: int = 0
    """Which prompt in flight it belongs to."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class HfEngine:
    """Samples from a policy's base and adapters."""

    def __init__(self, policy: Policy, *, max_rows: int | None = None, kv_bytes: int | None = None) -> None:
        """At most `max_rows` completions and about `kv_bytes` of keys and values are in flight at a time."""
        gpu = policy.device.type == "cuda"
        self._max_rows = (GPU_ROWS if gpu else CPU_ROWS) if max_rows is None else max_rows
        if self._max_rows < 1:
            raise ConfigError(
                f"engine max_rows is {max_rows}; at least 1 is needed. Leave it out for {CPU_ROWS}."
            )
        memory = torch.cuda.get_device_properties(policy.device).total_memory if gpu else 4 * CPU_KV_BYTES
        self._kv_bytes = memory // 4 if kv_bytes is None else kv_bytes
        self.policy = policy
        self._decoder: Decoder = (
            GenericDecoder(policy) if policy.fused is None else FusedDecoder(policy.fused)
        )
        self._served: dict[str, _Served] = {}

    @property
    def decoder_name(self) -> str:
        """Which decoder serves this model, and why not the fast one where it does not."""
        return self._decoder.name

    def load_adapter(self, name: str, *, version: int) -> None:
        """Serve a copy of the adapter's current weights from now on, as `version`."""
        self._served[name] = _Served(version, self._decoder.snapshot(self.policy.adapter(name), name=name))

    def generate(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list of `samples` completions a request, in order; written one adapter after the other."""
        vocabulary = self.policy.base.get_output_embeddings().weight.shape[0]
        for index, request in enumerate(requests):
            check_sampling(request, index=index, adapters=self._served)
            check_prompt(request, index=index, context=self.policy.context, vocabulary=vocabulary)
        groups = [
            [_Row(request=r, uniforms=uniforms(seed, count=r.max_tokens)) for seed in r.seeds]
            for r in requests
        ]
        for adapter in dict.fromkeys(request.adapter for request in requests):
            self._run(adapter, [row for rows in groups for row in rows if row.request.adapter == adapter])
        return [[self._completion(row) for row in rows] for rows in groups]

    def _run(self, adapter: str | None, rows: Sequence[_Row]) -> None:
        """Write all rows of one adapter."""
        jobs, room = self._plan(rows)
        weights = None if adapter is None else self._served[adapter].weights
        with self._decoder.open(adapter, weights, room=room) as flight:
            live: list[_Row] = []
            while jobs or live:
                admitted = _take(jobs, live, room) if flight.joins or not live else []
                if admitted:
                    fresh = [row for job in admitted for row in job]
                    logits = flight.admit(
                        [job[0].request.prompt_ids for job in admitted], [len(j) for j in admitted]
                    )
                    _write(logits[[place for place, job in enumerate(admitted) for _ in job]], fresh)
                    live += fresh
                else:
                    _write(flight.step([row.ids[-1] for row in live]), live)
                going = {i for i, row in enumerate(live) if not self._ended(row)}
                if len(going) < len(live):
                    order = fill_holes(len(live), alive=going)
                    flight.keep(order)
                    live = [live[i] for i in order]

    def _plan(self, rows: Sequence[_Row]) -> tuple[deque[list[_Row]], Room]:
        """Rows by prompt, longest first, and their room; a prompt with more rows than fit comes twice."""
        by_prompt: dict[tuple[int, ...], list[_Row]] = {}
        for row in rows:
            by_prompt.setdefault(row.request.prompt_ids, []).append(row)
        longest = max(map(len, by_prompt))
        tokens = max(row.request.max_tokens for row in rows)
        fewest = min(map(len, by_prompt.values()))
        layers, heads, width = self._decoder.heads
        row_bytes = 2 * layers * heads * width * self.policy.dtype.itemsize * (tokens + longest / fewest)
        fit = max(1, min(self._max_rows, len(rows), int(self._kv_bytes / row_bytes)))
        jobs = deque(
            group[first : first + fit]
            for _, group in sorted(by_prompt.items(), key=lambda item: -len(item[0]))
            for first in range(0, len(group), fit)
        )
        for number, job in enumerate(jobs):
            for row in job:
                row.job = number
        # twice as many as full groups would need: of some, one straggler is left
        prompts = min(len(jobs), fit, 2 * math.ceil(fit / min(fewest, fit)))
        return jobs, Room(prompts=prompts, prompt_tokens=longest, rows=fit, tokens=tokens)

    def _ended(self, row: _Row) -> bool:
        return row.ids[-1] in self.policy.eos_ids or len(row.ids) == row.request.max_tokens

    def _completion(self, row: _Row) -> Completion:
        adapter = row.request.adapter
        return Completion(
            ids=tuple(row.ids),
            logprobs=tuple(row.logprobs),
            stop="eos" if row.ids[-1] in self.policy.eos_ids else "length",
            adapter_version=0 if adapter is None else self._served[adapter].version,
        )


def _take(jobs: deque[list[_Row]], live: Sequence[_Row], room: Room) -> list[list[_Row]]:
    """The next jobs that fit beside the live rows."""
    rows, prompts = room.rows - len(live), room.prompts - len({row.job for row in live})
    taken = []
    while jobs and prompts > 0 and len(jobs[0]) <= rows:
        taken.append(jobs.popleft())
        rows, prompts = rows - len(taken[-1]), prompts - 1
    return taken


def _write(logits_NV: Tensor, rows: Sequence[_Row]) -> None:
    """Draw the next token of every row."""
    device = logits_NV.device
    drawn = draw(
        logits_NV,
        temperature_N=torch.tensor([row.request.temperature for row in rows], device=device),
        top_p_N=torch.tensor([row.request.top_p for row in rows], device=device),
        uniform_N=torch.tensor(
            [row.uniforms[len(row.ids)] for row in rows], dtype=torch.float64, device=device
        ),
    )
    for row, token, logprob in zip(rows, drawn.ids.tolist(), drawn.logprobs.tolist(), strict=True):
        if not math.isfinite(logprob):
            raise DivergenceError(
                f"adapter {row.request.adapter!r} gives probabilities that are not finite: its weights have "
                "diverged. Resume from an earlier checkpoint with a lower learning rate."
            )
        row.ids.append(token)
        row.logprobs.append(logprob)

"""Scored groups -> samples -> prefix-shared packed batches. The only place that shifts tokens by one. Pure
numpy."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seminar.errors import ConfigError
from seminar.prefixes import shared_prefix
from seminar.types import Batch, Group, Row, Sample


def from_groups(groups: Sequence[Group], credit: Sequence[np.ndarray]) -> list[Sample]:
    """One sample a scored turn; its advantage is broadcast over its own tokens.

    `credit[g]` holds one number a turn of `groups[g]`; NaN marks a turn without a score, which is left out.
    """
    samples: list[Sample] = []
    for group, values in zip(groups, credit, strict=True):
        for turn, value in zip(group.turns, values, strict=True):
            if np.isnan(value) or not turn.completion_ids:
                continue
            samples.append(
                Sample(
                    agent=group.agent,
                    prompt_ids=turn.prompt_ids,
                    completion_ids=turn.completion_ids,
                    temperature=turn.temperature,
                    advantages=(float(value),) * len(turn.completion_ids),
                    engine_logprobs=turn.engine_logprobs,
                )
            )
    return samples


PAIRS = 1_000
"""Pairs of tokens in attention that cost about as much as the products of one token (ours: small models)."""


class _Piece(NamedTuple):
    """Samples of one agent that share the first `prefix` tokens of their prompts: one row."""

    prefix: int
    samples: list[Sample]

    @property
    def tokens(self) -> int:
        """Input tokens."""
        return self.prefix + sum(_own(s, self.prefix) for s in self.samples)


def pack(samples: Iterable[Sample], *, max_tokens: int) -> list[Batch]:
    """Batches of at most `max_tokens` input tokens: samples of one agent and one prompt share one row.

    Where prompts differ but begin alike (drafts under several hints), what they share is the row's, if that
    makes fewer tokens. A row is never longer than needed and never padded; rows keep the order in which their
    prompts first came. One that would not fit is spread over several; a single sample that does not fit is
    refused.
    """
    by_agent: dict[str, list[Sample]] = {}
    for sample in samples:
        by_agent.setdefault(sample.agent, []).append(sample)
    batches: list[Batch] = []
    for agent, own in by_agent.items():
        whole, begun = _by_prompt(own), _by_prefix(own)
        rows = begun if _cost(begun) < _cost(whole) else whole
        open_: list[_Piece] = []
        size = 0
        for piece in (piece for row in rows for piece in _split(row, max_tokens=max_tokens)):
            if open_ and size + piece.tokens > max_tokens:
                batches.append(_batch(agent, open_))
                open_, size = [], 0
            open_.append(piece)
            size += piece.tokens
        if open_:
            batches.append(_batch(agent, open_))
    return batches


def origins(samples: Sequence[Sample], *, max_tokens: int) -> list[NDArray[np.int64]]:
    """Index in `samples` of each sample of each batch that `pack` makes of them."""
    numbered = [replace(s, advantages=(float(i),) * len(s.completion_ids)) for i, s in enumerate(samples)]
    return [
        batch.advantage_C[np.cumsum(batch.length_S) - batch.length_S].astype(np.int64)
        for batch in pack(numbered, max_tokens=max_tokens)
    ]


def _cost(rows: Sequence[_Piece]) -> float:
    """Of a row: its tokens, and what they look at under one mask, PAIRS of which cost as much as a token."""
    own = [row.tokens - row.prefix for row in rows]
    return sum(row.tokens + n * row.tokens / PAIRS for row, n in zip(rows, own, strict=True))


def _by_prompt(samples: Sequence[Sample]) -> list[_Piece]:
    rows: dict[tuple[int, ...], list[Sample]] = {}
    for sample in samples:
        rows.setdefault(sample.prompt_ids, []).append(sample)
    return [_Piece(len(prompt), row) for prompt, row in rows.items()]


def _by_prefix(samples: Sequence[Sample]) -> list[_Piece]:
    shared = shared_prefix(sorted(s.prompt_ids for s in samples))
    rows: dict[tuple[int, ...], list[Sample]] = {}
    for sample in samples:
        rows.setdefault(sample.prompt_ids[:shared], []).append(sample)
    return [_Piece(shared, row) for row in rows.values()]


def _own(sample: Sample, prefix: int) -> int:
    """Input tokens of a sample behind the first `prefix` tokens of its prompt."""
    return len(sample.prompt_ids) - prefix + len(sample.completion_ids)


def _split(row: _Piece, *, max_tokens: int) -> list[_Piece]:
    pieces = [_Piece(row.prefix, [])]
    for sample in row.samples:
        alone = len(sample.prompt_ids) + len(sample.completion_ids)
        if alone > max_tokens:
            raise ConfigError(
                f"update.max_tokens is {max_tokens}, and one sample has {alone} tokens; a sample must fit "
                "into a batch whole. Raise update.max_tokens or lower the prompt and completion limits."
            )
        if pieces[-1].samples and pieces[-1].tokens + _own(sample, row.prefix) > max_tokens:
            pieces.append(_Piece(row.prefix, []))
        pieces[-1].samples.append(sample)
    return pieces


def _batch(agent: str, rows: Sequence[_Piece]) -> Batch:
    samples = [sample for row in rows for sample in row.samples]
    ids: list[int] = []
    positions: list[int] = []
    source: list[int] = []
    layout: list[Row] = []
    for prefix, members in rows:
        start = len(ids)
        ids.extend(members[0].prompt_ids[:prefix])
        positions.extend(range(prefix))
        for sample in members:
            rest = sample.prompt_ids[prefix:]
            first = len(ids) + len(rest)
            last = first - 1 if rest else start + prefix - 1
            length = len(sample.completion_ids)
            ids.extend((*rest, *sample.completion_ids))
            positions.extend(range(prefix, prefix + len(rest) + length))
            source.extend([last, *range(first, first + length - 1)])
        lengths = tuple(_own(s, prefix) for s in members)
        layout.append(Row(start=start, prompt=prefix, lengths=lengths))
    lengths_S = np.array([len(s.completion_ids) for s in samples], dtype=np.int64)
    temperature = [1.0 if s.temperature == 0 else s.temperature for s in samples]
    engine = [s.engine_logprobs or (np.nan,) * len(s.completion_ids) for s in samples]
    return Batch(
        agent=agent,
        rows=tuple(layout),
        ids_N=np.array(ids, dtype=np.int64),
        positions_N=np.array(positions, dtype=np.int64),
        source_C=np.array(source, dtype=np.int64),
        target_C=np.concatenate([np.array(s.completion_ids, dtype=np.int64) for s in samples]),
        sample_C=np.repeat(np.arange(len(samples)), lengths_S),
        temperature_C=np.repeat(np.array(temperature, dtype=np.float32), lengths_S),
        advantage_C=np.concatenate([np.array(s.advantages, dtype=np.float32) for s in samples]),
        engine_logprob_C=np.concatenate([np.array(e, dtype=np.float32) for e in engine]),
        length_S=lengths_S,
        weight_S=np.array([s.weight for s in samples], dtype=np.float32),
    )

"""Scored groups -> samples -> prefix-shared packed batches. The only place that shifts tokens by one. Pure
numpy."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seminar.errors import ConfigError
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


def pack(samples: Iterable[Sample], *, max_tokens: int) -> list[Batch]:
    """Batches of at most `max_tokens` input tokens: samples of one agent and one prompt share one row.

    A row is never longer than needed and never padded; rows keep the order in which their prompts first came.
    A group whose row would not fit is spread over several rows; a single sample that does not fit is refused.
    """
    rows: dict[tuple[str, tuple[int, ...]], list[Sample]] = {}
    for sample in samples:
        rows.setdefault((sample.agent, sample.prompt_ids), []).append(sample)
    batches: list[Batch] = []
    for agent in dict.fromkeys(agent for agent, _ in rows):
        pieces = [
            piece
            for (a, _), row in rows.items()
            if a == agent
            for piece in _split(row, max_tokens=max_tokens)
        ]
        open_: list[list[Sample]] = []
        size = 0
        for piece in pieces:
            tokens = _tokens(piece)
            if open_ and size + tokens > max_tokens:
                batches.append(_batch(agent, open_))
                open_, size = [], 0
            open_.append(piece)
            size += tokens
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


def _split(row: list[Sample], *, max_tokens: int) -> list[list[Sample]]:
    pieces: list[list[Sample]] = [[]]
    for sample in row:
        alone = _tokens([sample])
        if alone > max_tokens:
            raise ConfigError(
                f"update.max_tokens is {max_tokens}, and one sample has {alone} tokens; a sample must fit "
                f"into a "
                "batch whole. Raise update.max_tokens or lower the prompt and completion limits."
            )
        if pieces[-1] and _tokens([*pieces[-1], sample]) > max_tokens:
            pieces.append([])
        pieces[-1].append(sample)
    return pieces


def _tokens(row: Sequence[Sample]) -> int:
    return len(row[0].prompt_ids) + sum(len(s.completion_ids) for s in row)


def _batch(agent: str, rows: Sequence[Sequence[Sample]]) -> Batch:
    samples = [sample for row in rows for sample in row]
    ids: list[int] = []
    positions: list[int] = []
    source: list[int] = []
    layout: list[Row] = []
    for row in rows:
        prompt = row[0].prompt_ids
        start = len(ids)
        last = start + len(prompt) - 1
        ids.extend(prompt)
        positions.extend(range(len(prompt)))
        for sample in row:
            first = len(ids)
            length = len(sample.completion_ids)
            ids.extend(sample.completion_ids)
            positions.extend(range(len(prompt), len(prompt) + length))
            source.extend([last, *range(first, first + length - 1)])
        lengths = tuple(len(s.completion_ids) for s in row)
        layout.append(Row(start=start, prompt=len(prompt), lengths=lengths))
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

"""Attention over prefix-shared rows: a prompt sees itself, each of its completions sees the prompt and
itself.

Registered with transformers under `NAME`, so that any of its causal models runs packed batches; a forward
without a `layout` falls through to transformers' own sdpa attention.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from seminar.types import Row

NAME = "seminar_packed"


class RowMask(NamedTuple):
    """One row of the packed batch, in its order, and who sees what in it."""

    prompt: int
    """Tokens of the prompt."""
    completions: int
    """Tokens of all completions."""
    mask: Tensor
    """bool [completions, prompt + completions]: True where the query may look."""


def layout(rows: Sequence[Row], *, device: torch.device) -> tuple[RowMask, ...]:
    """Masks of the rows of a batch."""
    return tuple(_row_mask(row, device=device) for row in rows)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    layout: tuple[RowMask, ...] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention output [1, N, heads, head width] for query [1, heads, N, width] and key, value [1, kv heads,
    N, width].

    Dropout on attention weights is not applied: the base is frozen and runs in evaluation mode.
    """
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    # split, not slices: its backward is one concatenation instead of one zero-filled tensor a slice
    queries = query.split([n for row in layout for n in (row.prompt, row.completions)], dim=2)
    keys = key.split([row.prompt + row.completions for row in layout], dim=2)
    values = value.split([row.prompt + row.completions for row in layout], dim=2)
    pieces = []
    for index, (prompt, _, mask) in enumerate(layout):
        k, v = keys[index], values[index]
        pieces.append(
            scaled_dot_product_attention(
                queries[2 * index], k[:, :, :prompt], v[:, :, :prompt], is_causal=True, scale=scaling
            )
        )
        pieces.append(
            scaled_dot_product_attention(
                queries[2 * index + 1], k, v, attn_mask=mask[None, None], scale=scaling
            )
        )
    return torch.cat(pieces, dim=2).transpose(1, 2).contiguous(), None


def _row_mask(row: Row, *, device: torch.device) -> RowMask:
    lengths = torch.tensor(row.lengths, device=device)
    owner = torch.repeat_interleave(torch.arange(len(row.lengths), device=device), lengths)
    own = (owner[:, None] == owner[None, :]).tril()
    prompt = torch.ones(len(owner), row.prompt, dtype=torch.bool, device=device)
    return RowMask(prompt=row.prompt, completions=len(owner), mask=torch.cat([prompt, own], dim=1))


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)

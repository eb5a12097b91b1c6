"""Attention over prefix-shared rows: a prompt sees itself, each of its completions sees the prompt and itself.

Registered with transformers under `NAME`, so that any of its causal models runs packed batches; a forward without a
`layout` falls through to transformers' own sdpa attention.
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
    """One row's place in the packed batch and who sees what in it."""

    start: int
    middle: int
    """First token behind the prompt."""
    end: int
    mask: Tensor
    """bool [completion tokens, row tokens]: True where the query may look."""


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
    """Attention output [1, N, heads, head width] for query [1, heads, N, width] and key, value [1, kv heads, N, width].

    Dropout on attention weights is not applied: the base is frozen and runs in evaluation mode.
    """
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    pieces = []
    for start, middle, end, mask in layout:
        k, v = key[:, :, start:end], value[:, :, start:end]
        length = middle - start
        pieces.append(
            scaled_dot_product_attention(
                query[:, :, start:middle], k[:, :, :length], v[:, :, :length], is_causal=True, scale=scaling
            )
        )
        pieces.append(
            scaled_dot_product_attention(
                query[:, :, middle:end], k, v, attn_mask=mask[None, None], scale=scaling
            )
        )
    return torch.cat(pieces, dim=2).transpose(1, 2).contiguous(), None


def _row_mask(row: Row, *, device: torch.device) -> RowMask:
    lengths = torch.tensor(row.lengths, device=device)
    owner = torch.repeat_interleave(torch.arange(len(row.lengths), device=device), lengths)
    own = (owner[:, None] == owner[None, :]).tril()
    prompt = torch.ones(len(owner), row.prompt, dtype=torch.bool, device=device)
    middle = row.start + row.prompt
    return RowMask(
        start=row.start, middle=middle, end=row.start + row.tokens, mask=torch.cat([prompt, own], dim=1)
    )


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)

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
    bias: Tensor
    """[completions, prompt + completions]: 0 where the query may look, minus infinity elsewhere."""


def layout(rows: Sequence[Row], *, device: torch.device, dtype: torch.dtype) -> tuple[RowMask, ...]:
    """Masks of the rows of a batch, for queries of `dtype`; sequences that share nothing stand alone."""
    nothing = torch.empty(0, 0, dtype=dtype, device=device)
    masks: list[RowMask] = []
    for row in rows:
        if row.prompt:
            masks.append(_row_mask(row, device=device, dtype=dtype))
        else:
            masks += [RowMask(prompt=length, completions=0, bias=nothing) for length in row.lengths]
    return tuple(masks)


def attend(
    q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor, layout: Sequence[RowMask], *, scale: float | None = None
) -> Tensor:
    """Attention of the tokens of a packed batch, each within its row; [N, H, D], contiguous."""
    groups = q_NHD.shape[1] // k_NKD.shape[1]
    if groups > 1:
        k_NKD, v_NKD = k_NKD.repeat_interleave(groups, dim=1), v_NKD.repeat_interleave(groups, dim=1)
    # split, not slices: its backward is one concatenation instead of one zero-filled tensor a slice
    q, k, v = (x.transpose(0, 1)[None] for x in (q_NHD, k_NKD, v_NKD))
    queries = q.split([n for row in layout for n in (row.prompt, row.completions)], dim=2)
    keys = k.split([row.prompt + row.completions for row in layout], dim=2)
    values = v.split([row.prompt + row.completions for row in layout], dim=2)
    pieces = []
    for index, (prompt, completions, bias) in enumerate(layout):
        k, v = keys[index], values[index]
        if prompt:
            own = (queries[2 * index], k[:, :, :prompt], v[:, :, :prompt])
            pieces.append(scaled_dot_product_attention(*own, is_causal=True, scale=scale))
        if completions:
            mask = bias[None, None]
            pieces.append(
                scaled_dot_product_attention(queries[2 * index + 1], k, v, attn_mask=mask, scale=scale)
            )
    return torch.cat([piece[0].transpose(0, 1) for piece in pieces])


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
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return attend(q, k, v, layout, scale=scaling)[None], None


def _row_mask(row: Row, *, device: torch.device, dtype: torch.dtype) -> RowMask:
    lengths = torch.tensor(row.lengths, device=device)
    owner = torch.repeat_interleave(torch.arange(len(row.lengths), device=device), lengths)
    later = torch.ones(len(owner), len(owner), dtype=torch.bool, device=device).triu_(1)
    foreign = later.logical_or_(owner[:, None] != owner[None, :])
    bias = torch.zeros(len(owner), row.prompt + len(owner), dtype=dtype, device=device)
    bias[:, row.prompt :].masked_fill_(foreign, -torch.inf)
    return RowMask(prompt=row.prompt, completions=len(owner), bias=bias)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)

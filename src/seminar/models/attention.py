"""Attention of a packed batch on a CPU, piece by piece: nothing that the mask would hide is computed.

Every prompt and every completion attends to itself, causally; the completions of a row attend to its prompt
as a whole. Softmax over both pieces is put together from the logarithms of their sums (Milakov and
Gimelshein 2018), and the backward pass makes the shares of each piece anew from the logarithm of the whole
sum (Dao et al. 2022), so that no share is kept. Small pieces are batched and dense, in float32; large ones
take torch's flash attention.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seminar.models import packed
from seminar.types import Row

LONG = 512
"""A piece is large from so many queries times as many keys (ours: there both ways take the same time)."""

CELLS = 1 << 22
"""Most scores a head of one dense piece: 16 MB in float32, and a few of them live at a time."""


class Found(NamedTuple):
    """What some tokens saw in one piece."""

    out: Tensor
    """[n, H, D] float32."""
    total: Tensor
    """[n, H]: logarithm of the sum of exponentiated scores."""


class Slopes(NamedTuple):
    """Gradients of a piece, float32."""

    q: Tensor
    k: Tensor
    v: Tensor


class Given(NamedTuple):
    """What the backward pass knows of all tokens."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    total: Tensor
    grad: Tensor
    """Of `out`."""
    along: Tensor
    """[N, H]: (grad * out) summed."""


class Piece(NamedTuple):
    """Some tokens that look at some tokens."""

    queries: Tensor | slice
    """[B, L], or one slice (B = 1)."""
    keys: Tensor | slice
    """Likewise."""
    real: Tensor | None
    """[B, L], True where a segment has a token; behind its end its last one is repeated. None: everywhere."""
    causal: bool

    @property
    def tokens(self) -> Tensor | slice:
        """The tokens that look, in the order of the results."""
        if isinstance(self.queries, slice):
            return self.queries
        return self.queries.flatten() if self.real is None else self.queries[self.real]

    @property
    def large(self) -> bool:
        """Whether it is worth flash attention."""
        if not (isinstance(self.queries, slice) and isinstance(self.keys, slice)):
            return False
        queries, keys = (side.stop - side.start for side in (self.queries, self.keys))
        return bool(queries * keys >= LONG**2)


def pieces(rows: Sequence[Row]) -> list[Piece]:
    """The pieces of a batch: first every segment by itself, then each row's completions on its prompt."""
    segments, across = [], []
    for row in rows:
        first = row.start + row.prompt
        if row.prompt:
            segments.append((row.start, row.prompt))
            queries, keys = slice(first, first + sum(row.lengths)), slice(row.start, first)
            across.append(Piece(queries, keys, None, causal=False))
        for length in row.lengths:
            segments.append((first, length))
            first += length
    buckets: dict[int, list[tuple[int, int]]] = {}
    alone = []
    for start, length in segments:
        if length >= LONG:
            where = slice(start, start + length)
            alone.append(Piece(where, where, None, causal=True))
        else:
            buckets.setdefault(length.bit_length(), []).append((start, length))
    together = [part for _, members in sorted(buckets.items()) for part in _parts(members)]
    return [*map(_bucket, together), *alone, *across]


def attention(q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor, pieces: Sequence[Piece]) -> Tensor:
    """Scaled attention of every token to its own segment and, from a completion, to its prompt; [N, H, D]."""
    return _Attention.apply(q_NHD, k_NKD, v_NKD, pieces)  # type: ignore[no-untyped-call, no-any-return]


def attention_of(
    rows: Sequence[Row], *, device: torch.device, dtype: torch.dtype
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Attention of a packed batch: by pieces on a CPU; under one mask a row where calls are dear."""
    if device.type == "cpu":
        return partial(attention, pieces=pieces(rows))
    return partial(packed.attend, layout=packed.layout(rows, device=device, dtype=dtype))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, pieces: Sequence[Piece]) -> Tensor:
        out = torch.empty(q.shape, dtype=torch.float32)
        total = torch.empty(q.shape[:2], dtype=torch.float32)
        for piece in pieces:
            where = piece.tokens
            found = _flash(piece, q, k, v) if piece.large else _dense(piece, q, k, v)
            if piece.causal:
                out[where], total[where] = found
            else:
                both = torch.logaddexp(total[where], found.total)
                old, new = ((x - both).exp_()[..., None] for x in (total[where], found.total))
                out[where] = found.out.mul_(new).addcmul_(out[where], old)
                total[where] = both
        result = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, result, total)
        ctx.pieces = pieces
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, total = ctx.saved_tensors
        grad = grads[0].contiguous()
        given = Given(q, k, v, out, total, grad, (grad.float() * out).sum(dim=-1))
        dq, dk, dv = (torch.empty(x.shape, dtype=torch.float32) for x in (q, k, v))
        for piece in ctx.pieces:
            slopes = _flash_backward(piece, given) if piece.large else _dense_backward(piece, given)
            if piece.causal:
                dq[piece.tokens], dk[piece.tokens], dv[piece.tokens] = slopes
            else:
                dq[piece.tokens] += slopes.q
                dk[piece.keys] += slopes.k
                dv[piece.keys] += slopes.v
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None


def _parts(members: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """Segments in parts of at most CELLS scores a head."""
    most = max(1, CELLS // max(length for _, length in members) ** 2)
    return [members[first : first + most] for first in range(0, len(members), most)]


def _bucket(members: Sequence[tuple[int, int]]) -> Piece:
    start_B, length_B = (torch.tensor(x)[:, None] for x in zip(*members, strict=True))
    place_L = torch.arange(int(length_B.max()))
    index = start_B + torch.minimum(place_L, length_B - 1)
    real = place_L < length_B
    return Piece(index, index, None if bool(real.all()) else real, causal=True)


# -- dense: queries of the heads that share keys lie one after the other, [B * K, groups * L, D] -----------


def _dense(piece: Piece, q: Tensor, k: Tensor, v: Tensor) -> Found:
    heads = k.shape[1]
    queries, keys, values = (_fold(x, where, heads) for x, where in _sides(piece, q, k, v))
    scores = _scores(piece, queries, keys)
    highest = scores.amax(dim=-1, keepdim=True)
    share = scores.sub_(highest).exp_()
    mass = share.sum(dim=-1, keepdim=True)
    out = torch.bmm(share, values).div_(mass)
    total = highest.add_(mass.log_())
    where = piece.queries
    return Found(_unfold(out, piece, where, heads), _unfold(total, piece, where, heads)[..., 0])


def _dense_backward(piece: Piece, given: Given) -> Slopes:
    heads = given.k.shape[1]
    queries, keys, values = (_fold(x, where, heads) for x, where in _sides(piece, *given[:3]))
    grad, total, along = (
        _fold(x, piece.queries, heads) for x in (given.grad, given.total[..., None], given.along[..., None])
    )
    if piece.real is not None:
        hidden = ~piece.real[:, None].expand(-1, heads, -1).flatten(0, 1)
        hidden = hidden.repeat(1, grad.shape[1] // hidden.shape[1])[..., None]
        grad, along = grad.masked_fill(hidden, 0.0), along.masked_fill(hidden, 0.0)
    share = _scores(piece, queries, keys).sub_(total).exp_()
    dv = torch.bmm(share.transpose(1, 2), grad)
    slope = torch.bmm(grad, values.transpose(1, 2)).sub_(along).mul_(share).mul_(queries.shape[-1] ** -0.5)
    dq, dk = torch.bmm(slope, keys), torch.bmm(slope.transpose(1, 2), queries)
    return Slopes(
        _unfold(dq, piece, piece.queries, heads),
        _unfold(dk, piece, piece.keys, heads),
        _unfold(dv, piece, piece.keys, heads),
    )


def _scores(piece: Piece, queries: Tensor, keys: Tensor) -> Tensor:
    scale, length = queries.shape[-1] ** -0.5, keys.shape[1]
    if not piece.causal:
        return torch.bmm(queries, keys.transpose(1, 2)).mul_(scale)
    later = queries.new_full((length, length), -torch.inf).triu_(1)
    bias = later.repeat(queries.shape[1] // length, 1)
    return torch.baddbmm(bias, queries, keys.transpose(1, 2), alpha=scale)


def _sides(piece: Piece, q: Tensor, k: Tensor, v: Tensor) -> tuple[tuple[Tensor, Tensor | slice], ...]:
    return (q, piece.queries), (k, piece.keys), (v, piece.keys)


def _fold(x_NHD: Tensor, where: Tensor | slice, heads: int) -> Tensor:
    """[N, groups * K, D] -> float32 [B * K, groups * L, D] of the tokens `where`."""
    x = x_NHD[where].float()
    x = x[None] if isinstance(where, slice) else x
    batch, width = x.shape[0], x.shape[-1]
    x = x.view(*x.shape[:2], heads, -1, width)
    return x.permute(0, 2, 3, 1, 4).reshape(batch * heads, -1, width)


def _unfold(x: Tensor, piece: Piece, where: Tensor | slice, heads: int) -> Tensor:
    """Back to [n, groups * K, D], real tokens only."""
    batch, length = (1, where.stop - where.start) if isinstance(where, slice) else where.shape
    x = x.view(batch, heads, -1, length, x.shape[-1]).permute(0, 3, 1, 2, 4).flatten(2, 3)
    return x.flatten(0, 1) if piece.real is None else x[piece.real]


# -- flash: one slice of queries, one of keys --------------------------------------------------------------


def _flash(piece: Piece, q: Tensor, k: Tensor, v: Tensor) -> Found:
    out, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *_flash_sides(piece, q, k, v), 0.0, piece.causal
    )
    return Found(out[0].transpose(0, 1).float(), total[0].T)


def _flash_backward(piece: Piece, given: Given) -> Slopes:
    q, k, v = _flash_sides(piece, *given[:3])
    grad, out = (x[piece.queries].transpose(0, 1)[None] for x in (given.grad, given.out))
    total = given.total[piece.queries].T[None].contiguous()
    slopes = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, total, 0.0, piece.causal
    )
    dq, dk, dv = (x[0].transpose(0, 1).float() for x in slopes)
    heads = given.k.shape[1]
    return Slopes(dq, *(x.unflatten(1, (heads, -1)).sum(dim=2) for x in (dk, dv)))


def _flash_sides(piece: Piece, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    groups = q.shape[1] // k.shape[1]
    keys, values = (x[piece.keys].repeat_interleave(groups, dim=1) for x in (k, v))
    return tuple(x.transpose(0, 1)[None] for x in (q[piece.queries], keys, values))

"""Keys and values of rows in flight: each prompt's once for all its samples, each row's own beside them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FIRST_COLUMNS = 128
"""Own tokens a row has room for at first; the room doubles up to what the requests can need."""


class Room(NamedTuple):
    """What must fit at a time."""

    prompts: int
    """Prompts (P)."""
    prompt_tokens: int
    """Tokens of the longest prompt (L)."""
    rows: int
    """Rows (N)."""
    tokens: int
    """Most tokens a row may write."""


class Heads(NamedTuple):
    """Sizes of a model's keys and values."""

    layers: int
    heads: int
    """Key and value heads a layer (K)."""
    width: int
    """Width of a head (D)."""


class _Step(NamedTuple):
    """Views of one step, one a layer: where its tokens go and what they may look at."""

    key_column: tuple[Tensor, ...]
    """[N, K, D]"""
    value_column: tuple[Tensor, ...]
    """[N, K, D]"""
    keys: tuple[Tensor, ...]
    """[N * K, D, columns]"""
    values: tuple[Tensor, ...]
    """[N * K, columns, D]"""
    prompt_keys: tuple[Tensor, ...]
    """[P * K, D, L]"""
    prompt_values: tuple[Tensor, ...]
    """[P * K, L, D]"""
    bias: Tensor | None
    """[N * K, 1, columns]: minus infinity before a row's first column; None where all rows began together."""


class _Rectangle(NamedTuple):
    """Live rows by prompt, filled up to [P, rows of the fullest], so that a prompt is read once for all."""

    fullest: int
    rows: Tensor | None
    """Row at each place [P * fullest]; None where rows stand in this order already."""
    places: Tensor
    """Place of each row [N]."""
    longest: int
    """Tokens of the longest prompt."""
    bias: Tensor | None
    """[P * K, 1, longest]: minus infinity behind a prompt's end; None where all are equally long."""

    @property
    def trivial(self) -> bool:
        """One row a prompt, in order."""
        return self.rows is None and self.fullest == 1


class Cache:
    """Attention memory of the rows in flight.

    All rows write their next token into the same column, so a write is a slice; a row that joined later has a
    later first column, and what lies before it is masked. Row i belongs to prompt `owner[i]`. Keys lie
    transposed, the order in which the product with the queries reads them.
    """

    def __init__(self, heads: Heads, room: Room, *, like: Tensor) -> None:
        """Allocate with the dtype and on the device of `like`."""
        self.room, self.heads, self.width = room, heads.heads, heads.width
        self.columns = min(room.tokens, FIRST_COLUMNS)
        prompt, row = (heads.layers, room.prompts, heads.heads), (heads.layers, room.rows, heads.heads)
        self.prompt_keys = like.new_zeros(*prompt, heads.width, room.prompt_tokens)
        self.prompt_values = like.new_zeros(*prompt, room.prompt_tokens, heads.width)
        self.keys = like.new_zeros(*row, heads.width, self.columns)
        self.values = like.new_zeros(*row, self.columns, heads.width)
        self.lengths: list[int] = []
        """Tokens of each live prompt."""
        self.owner: list[int] = []
        """Prompt of each live row."""
        self.start: list[int] = []
        """First column of each live row."""
        self.column = 0
        """Column of the next token."""

    # -- rows ------------------------------------------------------------------------------------------------

    def admit(self, lengths: Sequence[int], samples: Sequence[int]) -> slice:
        """Make room for prompts of these lengths with so many rows each; returns the prompts' places."""
        places = slice(len(self.lengths), len(self.lengths) + len(lengths))
        for place, count in zip(range(places.start, places.stop), samples, strict=True):
            self.owner += [place] * count
            self.start += [self.column] * count
        self.lengths += lengths
        assert len(self.lengths) <= self.room.prompts
        assert len(self.owner) <= self.room.rows
        self._arrange()
        return places

    def keep(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; rows not named leave, and prompts without rows with them."""
        _move((self.keys, self.values), order)
        self.owner = [self.owner[i] for i in order]
        self.start = [self.start[i] for i in order]
        prompts = fill_holes(len(self.lengths), alive=set(self.owner))
        _move((self.prompt_keys, self.prompt_values), prompts)
        self.lengths = [self.lengths[p] for p in prompts]
        place = {old: new for new, old in enumerate(prompts)}
        self.owner = [place[p] for p in self.owner]
        self._arrange()

    def next_column(self) -> Tensor:
        """Take a column for the next token of every row; returns its position [N] in each."""
        self._make_room()
        first, last = min(self.start), self.column
        device, window = self.keys.device, slice(first, last + 1)
        rows, prompts, longest = len(self.owner), len(self.lengths), self._rectangle.longest
        late = None
        if max(self.start) > first:
            start_N = torch.tensor(self.start, device=device)
            late = self._bias(torch.arange(first, last + 1, device=device) < start_N[:, None])
        self._step = _Step(
            key_column=self.keys[:, :rows, :, :, last].unbind(),
            value_column=self.values[:, :rows, :, last].unbind(),
            keys=self.keys[:, :rows].flatten(1, 2)[..., window].unbind(),
            values=self.values[:, :rows].flatten(1, 2)[:, :, window].unbind(),
            prompt_keys=self.prompt_keys[:, :prompts].flatten(1, 2)[..., :longest].unbind(),
            prompt_values=self.prompt_values[:, :prompts].flatten(1, 2)[:, :, :longest].unbind(),
            bias=late,
        )
        self.column += 1
        position = [self.lengths[p] + last - start for p, start in zip(self.owner, self.start, strict=True)]
        return torch.tensor(position, device=device)

    # -- attention -------------------------------------------------------------------------------------------

    def write_prompts(self, layer: int, places: Tensor, k_PKLD: Tensor, v_PKLD: Tensor) -> None:
        """Store keys and values of prompts, padded on the right to the longest; padding is never read."""
        length = k_PKLD.shape[2]
        self.prompt_keys[layer, places, :, :, :length] = k_PKLD.transpose(2, 3)
        self.prompt_values[layer, places, :, :length] = v_PKLD

    def attend(self, layer: int, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor) -> Tensor:
        """Write one token a row and attend from it to its prompt and to the row's own tokens; [N, H * D]."""
        step, rectangle = self._step, self._rectangle
        groups, longest = q_NHD.shape[1] // self.heads, rectangle.longest
        step.key_column[layer].copy_(k_NKD)
        step.value_column[layer].copy_(v_NKD)
        q = q_NHD.reshape(-1, groups, self.width)
        prompt_scores = _scores(self._to_prompts(q), step.prompt_keys[layer], rectangle.bias)
        own_scores = _scores(q, step.keys[layer], step.bias)
        scores = torch.cat((self._to_rows(prompt_scores, groups), own_scores), dim=-1)
        share = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        seen = torch.bmm(self._to_prompts(share[..., :longest]), step.prompt_values[layer])
        out = torch.baddbmm(self._to_rows(seen, groups), share[..., longest:], step.values[layer])
        return out.view(len(q_NHD), -1)

    # -- helpers ---------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        device = self.keys.device
        members: list[list[int]] = [[] for _ in self.lengths]
        for row, place in enumerate(self.owner):
            members[place].append(row)
        fullest, longest = max(map(len, members), default=0), max(self.lengths, default=0)
        filled = [row for rows in members for row in rows + rows[:1] * (fullest - len(rows))]
        places = {row: p * fullest + i for p, rows in enumerate(members) for i, row in enumerate(rows)}
        bias = None
        if longest > min(self.lengths, default=0):
            lengths_P = torch.tensor(self.lengths, device=device)
            bias = self._bias(torch.arange(longest, device=device) >= lengths_P[:, None])
        self._rectangle = _Rectangle(
            fullest=fullest,
            rows=None if filled == list(range(len(filled))) else torch.tensor(filled, device=device),
            places=torch.tensor([places[row] for row in range(len(self.owner))], device=device),
            longest=longest,
            bias=bias,
        )

    def _bias(self, hidden_XT: Tensor) -> Tensor:
        """[X, T], True where nothing may look -> what to add to scores [X * K, ., T]."""
        bias = torch.zeros(hidden_XT.shape, dtype=self.keys.dtype, device=hidden_XT.device)
        bias.masked_fill_(hidden_XT, -torch.inf)
        return bias[:, None].expand(-1, self.heads, -1).reshape(-1, 1, hidden_XT.shape[1])

    def _to_prompts(self, x: Tensor) -> Tensor:
        """[N * K, queries, X] -> [P * K, fullest * queries, X]."""
        rectangle, (queries, wide) = self._rectangle, x.shape[1:]
        if rectangle.trivial:
            return x
        if rectangle.rows is not None:
            x = x.view(-1, self.heads, queries, wide).index_select(0, rectangle.rows)
        x = x.view(-1, rectangle.fullest, self.heads, queries, wide).transpose(1, 2)
        return x.reshape(-1, rectangle.fullest * queries, wide)

    def _to_rows(self, x: Tensor, queries: int) -> Tensor:
        """[P * K, fullest * queries, X] -> [N * K, queries, X]."""
        rectangle = self._rectangle
        if rectangle.trivial:
            return x
        x = x.view(-1, self.heads, rectangle.fullest, queries, x.shape[2]).transpose(1, 2).flatten(0, 1)
        if rectangle.rows is not None:
            x = x.index_select(0, rectangle.places)
        return x.flatten(0, 1)

    def _make_room(self) -> None:
        """Where the columns end, forget those before the oldest row, or double them."""
        if self.column < self.columns:
            return
        first = min(self.start)
        live = slice(first, self.column)
        columns = self.columns
        if first < columns // 2:
            columns = min(2 * columns, self.room.tokens + FIRST_COLUMNS)
        self.keys = _moved(self.keys, live, columns, dim=-1)
        self.values = _moved(self.values, live, columns, dim=-2)
        self.columns = columns
        self.start = [start - first for start in self.start]
        self.column -= first


def fill_holes(count: int, *, alive: set[int]) -> list[int]:
    """Order that closes the holes between `count` places in the fewest moves: the last move into holes."""
    movers = [i for i in range(len(alive), count) if i in alive]
    return [i if i in alive else movers.pop() for i in range(len(alive))]


def _scores(q: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    scale = q.shape[-1] ** -0.5
    if bias is None:
        return torch.baddbmm(q.new_zeros(1, 1, 1), q, keys, beta=0, alpha=scale)
    return torch.baddbmm(bias, q, keys, alpha=scale)


def _moved(old: Tensor, live: slice, columns: int, *, dim: int) -> Tensor:
    """A tensor of so many columns that begins with the live ones of `old`."""
    shape = list(old.shape)
    shape[dim] = columns
    new = old.new_zeros(shape)
    new.narrow(dim, 0, live.stop - live.start).copy_(old.narrow(dim, live.start, live.stop - live.start))
    return new


def _move(pair: tuple[Tensor, Tensor], order: Sequence[int]) -> None:
    moves = [(new, old) for new, old in enumerate(order) if new != old]
    if moves:
        into, out = (list(places) for places in zip(*moves, strict=True))
        for tensor in pair:
            tensor[:, into] = tensor[:, out]

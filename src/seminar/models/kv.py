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

    def begin_step(self) -> Tensor:
        """Prepare the column of the next token; returns its position [N] in every row."""
        self._make_room()
        device = self.keys.device
        first = min(self.start)
        count, prompts = len(self.owner) * self.heads, len(self.lengths) * self.heads
        self._key_column = self.keys[:, : len(self.owner), :, :, self.column].unbind()
        self._value_column = self.values[:, : len(self.owner), :, self.column].unbind()
        window = slice(first, self.column + 1)
        self._keys = self.keys.flatten(1, 2)[:, :count, :, window].unbind()
        self._values = self.values.flatten(1, 2)[:, :count, window].unbind()
        self._prompt_keys = self.prompt_keys.flatten(1, 2)[:, :prompts, :, : self._longest].unbind()
        self._prompt_values = self.prompt_values.flatten(1, 2)[:, :prompts, : self._longest].unbind()
        self._own_bias = None
        if max(self.start) > first:
            start_N = torch.tensor(self.start, device=device)
            self._own_bias = self._bias(
                torch.arange(first, self.column + 1, device=device) < start_N[:, None]
            )
        ages = [self.column - start for start in self.start]
        return torch.tensor(
            [self.lengths[p] + age for p, age in zip(self.owner, ages, strict=True)], device=device
        )

    def end_step(self) -> None:
        """The column of this step is written in every layer."""
        self.column += 1

    # -- attention -------------------------------------------------------------------------------------------

    def write_prompts(self, layer: int, places: slice, k_PKLD: Tensor, v_PKLD: Tensor) -> None:
        """Store keys and values of prompts, padded on the right to the longest; padding is never read."""
        length = k_PKLD.shape[2]
        self.prompt_keys[layer, places, :, :, :length] = k_PKLD.transpose(2, 3)
        self.prompt_values[layer, places, :, :length] = v_PKLD

    def attend(self, layer: int, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor) -> Tensor:
        """Write one token a row and attend from it to its prompt and to the row's own tokens; [N, H * D]."""
        groups, longest = q_NHD.shape[1] // self.heads, self._longest
        self._key_column[layer].copy_(k_NKD)
        self._value_column[layer].copy_(v_NKD)
        q = q_NHD.reshape(-1, groups, self.width)
        prompt_scores = _scores(self._to_prompts(q), self._prompt_keys[layer], self._prompt_bias)
        own_scores = _scores(q, self._keys[layer], self._own_bias)
        scores = torch.cat((self._to_rows(prompt_scores, groups), own_scores), dim=-1)
        share = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        seen = torch.bmm(self._to_prompts(share[..., :longest]), self._prompt_values[layer])
        out = torch.baddbmm(self._to_rows(seen, groups), share[..., longest:], self._values[layer])
        return out.view(len(q_NHD), -1)

    # -- helpers ---------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Lay the rows out as a rectangle [prompts, rows of the fullest prompt]."""
        device = self.keys.device
        members: list[list[int]] = [[] for _ in self.lengths]
        for row, place in enumerate(self.owner):
            members[place].append(row)
        self._fullest = max(map(len, members), default=0)
        padded = [row for rows in members for row in rows + rows[:1] * (self._fullest - len(rows))]
        self._rectangle = None if padded == list(range(len(padded))) else torch.tensor(padded, device=device)
        self._one_each = self._rectangle is None and self._fullest == 1
        where = {
            row: place * self._fullest + i for place, rows in enumerate(members) for i, row in enumerate(rows)
        }
        self._place = torch.tensor([where[row] for row in range(len(self.owner))], device=device)
        self._longest = max(self.lengths, default=0)
        self._prompt_bias = None
        if self._longest > min(self.lengths, default=0):
            lengths_P = torch.tensor(self.lengths, device=device)
            self._prompt_bias = self._bias(torch.arange(self._longest, device=device) >= lengths_P[:, None])

    def _bias(self, hidden_XT: Tensor) -> Tensor:
        """[X, T], True where nothing may look -> what to add to scores [X * K, ., T]."""
        bias = torch.zeros(hidden_XT.shape, dtype=self.keys.dtype, device=hidden_XT.device)
        bias.masked_fill_(hidden_XT, -torch.inf)
        return bias[:, None].expand(-1, self.heads, -1).reshape(-1, 1, hidden_XT.shape[1])

    def _to_prompts(self, x: Tensor) -> Tensor:
        """[N * K, queries, X] -> [P * K, fullest * queries, X]."""
        if self._one_each:
            return x
        queries, wide = x.shape[1:]
        if self._rectangle is not None:
            x = x.view(-1, self.heads, queries, wide).index_select(0, self._rectangle)
        x = x.view(-1, self._fullest, self.heads, queries, wide).transpose(1, 2)
        return x.reshape(-1, self._fullest * queries, wide)

    def _to_rows(self, x: Tensor, queries: int) -> Tensor:
        """[P * K, fullest * queries, X] -> [N * K, queries, X]."""
        if self._one_each:
            return x
        x = x.view(-1, self.heads, self._fullest, queries, x.shape[2]).transpose(1, 2).flatten(0, 1)
        if self._rectangle is not None:
            x = x.index_select(0, self._place)
        return x.flatten(0, 1)

    def _make_room(self) -> None:
        """Where the columns end, forget those before the oldest row, or double them."""
        if self.column < self.columns:
            return
        first = min(self.start)
        live = slice(first, self.column)
        columns = (
            self.columns
            if first >= self.columns // 2
            else min(2 * self.columns, self.room.tokens + FIRST_COLUMNS)
        )
        keys = self.keys.new_zeros(*self.keys.shape[:-1], columns)
        values = self.values.new_zeros(*self.values.shape[:-2], columns, self.width)
        keys[..., : self.column - first] = self.keys[..., live]
        values[..., : self.column - first, :] = self.values[..., live, :]
        self.keys, self.values, self.columns = keys, values, columns
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


def _move(pair: tuple[Tensor, Tensor], order: Sequence[int]) -> None:
    moves = [(new, old) for new, old in enumerate(order) if new != old]
    if moves:
        into, out = (list(places) for places in zip(*moves, strict=True))
        for tensor in pair:
            tensor[:, into] = tensor[:, out]

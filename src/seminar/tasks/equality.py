r"""Gold and answer -> the same or not, by this project's rules; what needs algebra is asked of a `Leaf`.

- Numbers as in `same_number`. Words by their letters; a single letter in its case, `\text{...}` in any case.
- A single gold needs a single answer; a list of golds needs all of them, in any order.
- Points, intervals, matrices entry by entry and only with the same brackets or shape; unions part by part.
- A numeral in a base (`52_8`) only by the same digits with the same base, for its form is what was asked.
- `x = 5` is `5`, and `y = 5` is not `x = 5`. Pure text, linear time, never raises.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seminar.tasks.latex import (
    brackets,
    clean,
    matrix,
    nesting_too_deep,
    split_list,
    split_top,
    squeeze,
    union,
    unwrap,
)
from seminar.tasks.numbers import TOLERANCE, read_number, same_number

MAX_ANSWER_CHARS = 2_000
"""Longest gold or answer that is compared; a longer answer is wrong, a longer gold unusable."""
MAX_PARTS = 60
"""Most answers of a list, or entries of a point or a matrix, that are compared."""

Leaf = Callable[[str, str], bool | None]
"""(gold, answer), cleaned texts that need algebra -> the same or not; None: cannot tell."""

_TEXT = re.compile(r"\\text\s*\{\s*([^{}]*?)\s*\}")
_BARE_WORDS = re.compile(r"[A-Za-z]{4,}(?: [A-Za-z]+)*|\(?[A-Za-df-hj-z]\)?")
_WORD_JOIN = re.compile(r"[,;]|\band\b|\bor\b")
_COLON = re.compile(":")
_NUMERAL = re.compile(r"(?=[A-Z]*[0-9])([0-9A-Z]+)_(?:\{([0-9]+)\}|([0-9]))")
_MANY = re.compile(
    r"[<>=]|\\\{|\\(?:[lgn]eq?|[lg]t|in|cup|cap|setminus|mathbb|begin|emptyset|varnothing)(?![a-z])"
)
"""Signs of what can be a set, a relation or a vector; an answer without them is one value."""
_EQUAL = re.compile(r"(?<![<>!:])=")
_EQUALS = re.compile(r"(?<![<>!:])=|\\in(?![a-zA-Z])")
_VARIABLE = re.compile(r"(?:[a-zA-Z]|\\[a-zA-Z]+)(?:_(?:\w|\{\w+\}))?(?:\([a-zA-Z]\))?")


def compare(gold: str, answer: str, *, leaf: Leaf, tolerance: float = TOLERANCE) -> bool | None:
    """Whether an answer is the gold answer; None only where `leaf` cannot tell on a part that decides."""
    if len(gold) > MAX_ANSWER_CHARS or len(answer) > MAX_ANSWER_CHARS:
        return False
    wanted = read_number(gold)
    if wanted is not None and (given := read_number(answer)) is not None:
        return same_number(wanted, given, tolerance=tolerance)
    gold, answer = clean(gold), clean(answer)
    if squeeze(gold) == squeeze(answer):
        return bool(gold)
    if not gold or not answer or nesting_too_deep(gold) or nesting_too_deep(answer):
        return False
    if (words := words_of(gold)) is not None:
        return words == words_of(answer, any_text=True)
    return _Comparison(leaf, tolerance).lists(split_list(gold), split_list(answer))


def words_of(text: str, *, any_text: bool = False) -> tuple[str, ...] | None:
    r"""The words of a cleaned answer in words, sorted: `\text{B, A}` -> (a, b); None for other answers.

    `any_text` reads every answer as words.
    """
    without_text = _TEXT.sub("", text)
    if without_text.strip(" ,;") and not (any_text or _BARE_WORDS.fullmatch(text)):
        return None
    words = [word.strip(" ().:") for word in _WORD_JOIN.split(_TEXT.sub(r"\1", text))]
    return tuple(sorted(word if len(word) == 1 else word.casefold() for word in words if word))


def named_value(text: str) -> tuple[str, str] | None:
    r"""`x = 5`, `x \in A`, `x = 2 + 3 = 5` -> the name, and what stands last; None without a plain name."""
    sides = [side.strip() for side in _EQUALS.split(text)]
    name = squeeze(sides[0])
    return (name, sides[-1]) if len(sides) > 1 and sides[-1] and _VARIABLE.fullmatch(name) else None


class _Comparison:
    """Three-valued comparison of cleaned texts: True, False, or None for `leaf` could not tell."""

    def __init__(self, leaf: Leaf, tolerance: float) -> None:
        self.leaf = leaf
        self.tolerance = tolerance

    def lists(self, golds: Sequence[str], answers: Sequence[str]) -> bool | None:
        """Whether two lists hold the same answers in some order."""
        if len(golds) != len(answers) or len(golds) > MAX_PARTS:
            return False
        left, unknown = list(answers), False
        for gold in golds:
            maybe = False
            for place, answer in enumerate(left):
                same = self.single(gold, answer)
                if same:
                    del left[place]
                    break
                maybe |= same is None
            else:
                if not maybe:
                    return False
                unknown = True
        return None if unknown else True

    def sequences(self, golds: Sequence[str], answers: Sequence[str]) -> bool | None:
        """Whether two sequences hold the same entries in the same order."""
        if len(golds) != len(answers) or len(golds) > MAX_PARTS:
            return False
        results = []
        for gold, answer in zip(golds, answers, strict=True):
            results.append(self.single(gold, answer))
            if results[-1] is False:
                return False
        return None if None in results else True

    def single(self, gold: str, answer: str) -> bool | None:
        """Whether two answers, each of them one, are the same."""
        gold, answer = unwrap(gold), unwrap(answer)
        wanted, given = read_number(gold), read_number(answer)
        if wanted is not None and given is not None:
            return same_number(wanted, given, tolerance=self.tolerance)
        if squeeze(gold) == squeeze(answer):
            return True
        if (words := words_of(gold)) is not None:
            return words == words_of(answer, any_text=True)
        numerals = _numeral(gold), _numeral(answer)
        if numerals != (None, None):
            return numerals[0] == numerals[1]
        gold_named, answer_named = named_value(gold), named_value(answer)
        if gold_named and (not _EQUALS.search(answer) or (answer_named and gold_named[0] == answer_named[0])):
            return self.single(gold_named[1], answer_named[1] if answer_named else answer)
        if answer_named and not _EQUALS.search(gold):
            return self.single(gold, answer_named[1])
        if len(sides := split_top(answer, _EQUAL)) > 1 and not _EQUALS.search(gold):
            return self._chain(gold, sides)
        return self._structured(gold, answer)

    def _chain(self, gold: str, sides: Sequence[str]) -> bool | None:
        """`AB + BC = 3 + 4 = 7` is 7 by what stands last; `0 = 1` is neither."""
        if any(self.single(gold, side) is False for side in sides if read_number(side) is not None):
            return False
        return self.single(gold, sides[-1])

    def _structured(self, gold: str, answer: str) -> bool | None:
        wanted, given = _structure(gold), _structure(answer)
        if wanted is None or given is None:
            plain = answer if given is None else gold
            return self.leaf(gold, answer) if wanted is given or _MANY.search(plain) else False
        if (wanted.kind == "union") != (given.kind == "union"):
            return self.leaf(gold, answer)
        if wanted.kind == "union":
            return self.lists(wanted.parts, given.parts) or self.leaf(gold, answer)
        return wanted.kind == given.kind and self.sequences(wanted.parts, given.parts)


class _Structure(NamedTuple):
    kind: str
    """Two brackets (`(]`), the cells of a matrix row by row (`3 3`), `:` (ratio, time) or union."""
    parts: list[str]


def _structure(text: str) -> _Structure | None:
    if (found := brackets(text)) is not None:
        return _Structure(*found)
    if (rows := matrix(text)) is not None:
        return _Structure(" ".join(str(len(row)) for row in rows), [cell for row in rows for cell in row])
    if len(ratio := split_top(text, _COLON)) > 1:
        return _Structure(":", ratio)
    return _Structure("union", parts) if len(parts := union(text)) > 1 else None


def _numeral(text: str) -> tuple[str, str] | None:
    found = _NUMERAL.fullmatch(squeeze(text))
    return (found[1].lstrip("0"), found[2] or found[3]) if found else None

"""Kinds, count, seed, split -> `Task`s made up offline: word problems and sums with worked solutions."""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seminar.errors import ConfigError, DataError
from seminar.types import Task

Split = Literal["warmup", "train", "validation", "evaluation"]

SHARES: dict[Split, range] = {
    "warmup": range(0, 6),
    "train": range(6, 13),
    "validation": range(13, 15),
    "evaluation": range(15, 20),
}
"""Twentieths of all number combinations that belong to each split."""

_MAX_REPEATS = 2_000
"""Draws in a row without a new question after which a split counts as used up."""

_NAMES = ("Ann", "Ben", "Cara", "Dan", "Eve", "Finn", "Gita", "Hugo", "Ines", "Jack", "Kim", "Leo")
_THINGS = ("shells", "coins", "pens", "cards", "stamps", "apples", "beads", "books")
_GOODS = ("cap", "mug", "ball", "kite", "lamp", "scarf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """One drawn problem."""

    numbers: tuple[int, ...]
    """The numbers in the question, in order; with the kind they decide the split."""
    question: str
    steps: tuple[str, ...]
    """Equations of the worked solution; the last one ends in the answer."""
    answer: int


def problems(kinds: str | Sequence[str], *, count: int, seed: int, split: Split) -> list[Task]:
    """`count` tasks of one split, the kinds taking turns, no question twice.

    `kinds` is a mix (`words`, `arithmetic`), one kind, or several kinds. A kind with its numbers belongs to
    one split for ever (by hash), so the splits share no question, and no sum in other words, whatever the
    seeds and counts. `meta["solution"]` is a worked solution for imitation, `meta["kind"]` the kind.
    Raises ConfigError for an unknown kind or split and a count below 1, DataError where a split has too few.
    """
    names = _resolve(kinds)
    if split not in SHARES:
        raise ConfigError(
            f"generated.split is {split!r}; allowed are {', '.join(get_args(Split))}. Choose one of them."
        )
    if count < 1:
        raise ConfigError(f"generated.count is {count}; at least 1 is allowed. Ask for one problem or more.")
    draws = {name: _draws(name, seed=seed, split=split) for name in names}
    return [next(draws[names[i % len(names)]]) for i in range(count)]


def _resolve(kinds: str | Sequence[str]) -> tuple[str, ...]:
    wanted = MIXES.get(kinds, (kinds,)) if isinstance(kinds, str) else tuple(kinds)
    unknown = [name for name in wanted if name not in _KINDS]
    if unknown or not wanted:
        raise ConfigError(
            f"generated.kinds is {kinds!r}; allowed are the mixes {', '.join(MIXES)} and the kinds "
            f"{', '.join(_KINDS)}. Name one mix, one kind or a list of kinds."
        )
    return wanted


def _draws(kind: str, *, seed: int, split: Split) -> Iterator[Task]:
    """Tasks of one kind without end; each question once."""
    rng = random.Random(f"{seed}/{kind}/{split}")
    seen: set[str] = set()
    repeats = 0
    while repeats < _MAX_REPEATS:
        problem = _KINDS[kind](rng)
        if problem.question in seen or _twentieth(kind, problem.numbers) not in SHARES[split]:
            repeats += 1
            continue
        repeats = 0
        seen.add(problem.question)
        yield _task(kind, problem)
    raise DataError(
        f"generated.count asks for more problems of kind {kind!r} in split {split!r} than exist; "
        f"{len(seen)} were found. Ask for fewer, or mix in more kinds."
    )


def _twentieth(kind: str, numbers: tuple[int, ...]) -> int:
    key = f"{kind} {' '.join(map(str, numbers))}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 20


def _task(kind: str, problem: _Problem) -> Task:
    digest = hashlib.sha256(problem.question.encode()).hexdigest()[:12]
    solution = f"{' '.join(problem.steps)} \\boxed{{{problem.answer}}}"
    return Task(
        id=f"{kind}-{digest}",
        question=problem.question,
        gold=str(problem.answer),
        source="generated",
        meta={"kind": kind, "solution": solution},
    )


def _gain(rng: random.Random) -> _Problem:
    a, b = rng.randint(3, 30), rng.randint(3, 30)
    thing = rng.choice(_THINGS)
    return _Problem(
        numbers=(a, b),
        question=f"{rng.choice(_NAMES)} has {a} {thing} and finds {b} more. How many {thing} is that in all?",
        steps=(f"{a}+{b}={a + b}.",),
        answer=a + b,
    )


def _lose(rng: random.Random) -> _Problem:
    b = rng.randint(3, 20)
    a = b + rng.randint(2, 20)
    thing = rng.choice(_THINGS)
    return _Problem(
        numbers=(a, b),
        question=f"{rng.choice(_NAMES)} had {a} {thing} and gave {b} away. How many {thing} are left?",
        steps=(f"{a}-{b}={a - b}.",),
        answer=a - b,
    )


def _boxes(rng: random.Random) -> _Problem:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    thing = rng.choice(_THINGS)
    return _Problem(
        numbers=(a, b),
        question=f"{rng.choice(_NAMES)} fills {a} boxes with {b} {thing} each. "
        f"How many {thing} is that in all?",
        steps=(f"{a}*{b}={a * b}.",),
        answer=a * b,
    )


def _shop(rng: random.Random) -> _Problem:
    a, b, c = rng.randint(2, 5), rng.randint(2, 6), rng.randint(2, 15)
    good, other = rng.sample(_GOODS, 2)
    return _Problem(
        numbers=(a, b, c),
        question=f"{rng.choice(_NAMES)} buys {a} {good}s at {b} each and a {other} at {c}. How many coins?",
        steps=(f"{a}*{b}={a * b}.", f"{a * b}+{c}={a * b + c}."),
        answer=a * b + c,
    )


def _share(rng: random.Random) -> _Problem:
    each, friends = rng.randint(2, 9), rng.randint(2, 6)
    total = each * friends
    a = rng.randint(1, total - 1)
    thing = rng.choice(_THINGS)
    return _Problem(
        numbers=(a, total - a, friends),
        question=f"{rng.choice(_NAMES)} shares {a} {thing} and {total - a} more among {friends} friends. "
        "How many does each get?",
        steps=(f"{a}+{total - a}={total}.", f"{total}/{friends}={each}."),
        answer=each,
    )


def _plus_product(rng: random.Random) -> _Problem:
    a, b, c = rng.randint(2, 99), rng.randint(2, 9), rng.randint(2, 9)
    return _sum(f"{a}+{b}*{c}", (a, b, c), f"{b}*{c}={b * c}", f"{a}+{b * c}={a + b * c}", a + b * c)


def _product_minus(rng: random.Random) -> _Problem:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    c = rng.randint(1, a * b)
    return _sum(f"{a}*{b}-{c}", (a, b, c), f"{a}*{b}={a * b}", f"{a * b}-{c}={a * b - c}", a * b - c)


def _three_terms(rng: random.Random) -> _Problem:
    a, b = rng.randint(2, 59), rng.randint(2, 59)
    c = rng.randint(1, min(a + b, 99))
    return _sum(f"{a}+{b}-{c}", (a, b, c), f"{a}+{b}={a + b}", f"{a + b}-{c}={a + b - c}", a + b - c)


def _bracket(rng: random.Random) -> _Problem:
    a, b, c = rng.randint(2, 19), rng.randint(2, 19), rng.randint(2, 9)
    return _sum(f"({a}+{b})*{c}", (a, b, c), f"{a}+{b}={a + b}", f"{a + b}*{c}={(a + b) * c}", (a + b) * c)


def _sum(question: str, numbers: tuple[int, ...], first: str, second: str, answer: int) -> _Problem:
    return _Problem(numbers=numbers, question=question, steps=(first, second), answer=answer)


_KINDS: dict[str, Callable[[random.Random], _Problem]] = {
    "gain": _gain,
    "lose": _lose,
    "boxes": _boxes,
    "shop": _shop,
    "share": _share,
    "plus_product": _plus_product,
    "product_minus": _product_minus,
    "three_terms": _three_terms,
    "bracket": _bracket,
}

MIXES: dict[str, tuple[str, ...]] = {
    "words": ("gain", "lose", "boxes", "shop", "share"),
    "arithmetic": ("plus_product", "product_minus", "three_terms", "bracket"),
}
"""Named mixes: word problems for a small chat model, sums for the model `tiny`."""

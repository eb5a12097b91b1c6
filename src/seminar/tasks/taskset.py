"""Tasks -> a set with unique ids: seeded batches, disjoint parts, overlap with other sets. No files."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from seminar.errors import ConfigError, DataError
from seminar.types import Task

_PHRASE_USES = 10
_ORDER, _SPLIT = 1, 2  # keep the random streams of batches and of parts apart


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """Tasks with unique ids, and what was left out on the way. Empty sets and doubled ids are a DataError."""

    name: str
    tasks: tuple[Task, ...]
    dropped: tuple[tuple[str, str], ...] = ()
    """(id, reason) of every row that is not among the tasks."""

    def __post_init__(self) -> None:  # noqa: D105 - what it refuses stands in the docstring of the class
        if not self.tasks:
            first = (
                f"; {len(self.dropped)} were dropped, the first, {self.dropped[0][0]}, for this: "
                f"{self.dropped[0][1]}"
                if self.dropped
                else ""
            )
            raise DataError(
                f"{self.name} holds no usable task{first}. At least one is needed; check the source."
            )
        seen: set[str] = set()
        for task in self.tasks:
            if task.id in seen:
                raise DataError(
                    f"{self.name}: the id `{task.id}` stands for two tasks; ids must be unique. "
                    "Map another column as the id, or none to number the rows."
                )
            seen.add(task.id)

    def batch(self, step: int, *, size: int, seed: int) -> tuple[Task, ...]:
        """The tasks of one step: a pure function of (seed, step, size), so a resumed run goes on as planned.

        Steps walk through seeded permutations, one an epoch; nothing repeats within an epoch. A batch may
        straddle two epochs; the new one then starts with tasks the batch does not have yet, so that a batch
        never repeats a task.
        """
        count = len(self.tasks)
        if not 1 <= size <= count:
            raise ConfigError(
                f"batch size is {size} tasks, but {self.name} has {count} and no batch repeats a task. "
                f"Choose 1 to {count}, or more data."
            )
        epoch, offset = divmod(step * size, count)
        order = _epoch_order(count, epoch, size=size, seed=seed)[offset : offset + size]
        if len(order) < size:
            following = _epoch_order(count, epoch + 1, size=size, seed=seed)
            order = np.concatenate([order, following[: size - len(order)]])
        return tuple(self.tasks[index] for index in order)

    def split(self, parts: int | Sequence[int], *, validation: int = 0, seed: int) -> "Split":
        """Seeded partition into disjoint parts and one validation part; no question stands in two of them.

        `parts` is their number (all tasks are dealt out, sizes differ by one at most) or their sizes (the
        rest stays unused). A question that repeats is kept once, the others named in `dropped`. Errors:
        DataError where there are too few tasks.
        """
        first: dict[str, Task] = {}
        dropped = []
        for task in self.tasks:
            if (kept := first.setdefault(question_key(task), task)) is not task:
                dropped.append((task.id, f"same question as {kept.id}"))
        tasks = tuple(first.values())
        if isinstance(parts, int):
            each, more = divmod(max(len(tasks) - validation, 0), max(parts, 1))
            sizes = [each + (part < more) for part in range(parts)]
        else:
            sizes = list(parts)
        if not sizes or min(sizes) < 1 or validation < 0 or sum(sizes) + validation > len(tasks):
            raise DataError(
                f"{self.name} has {len(tasks)} questions; parts {parts} and validation {validation} "
                "do not fit. Ask for at least one part, one task a part, and no more tasks than there are."
            )
        order = np.random.default_rng((seed, _SPLIT)).permutation(len(tasks))
        chosen = [
            tuple(tasks[index] for index in sorted(order[start:stop]))
            for start, stop in pairwise(accumulate([0, *sizes, validation]))
        ]
        keys = [question_key(task) for part in chosen for task in part]
        assert len(keys) == len(set(keys)), "parts share a question"
        names = [*(f"{self.name}/part-{part}" for part in range(len(sizes))), f"{self.name}/validation"]
        sets = [TaskSet(name=name, tasks=part) for name, part in zip(names, chosen, strict=True) if part]
        return Split(tuple(sets[: len(sizes)]), sets[len(sizes)] if validation else None, tuple(dropped))


class Split(NamedTuple):
    """Disjoint task sets out of one."""

    parts: tuple[TaskSet, ...]
    validation: TaskSet | None
    dropped: tuple[tuple[str, str], ...]
    """(id, reason) of repeated questions."""


class Overlap(NamedTuple):
    """Training tasks that an evaluation set knows: (training id, evaluation id), the first match of each."""

    equal: tuple[tuple[str, str], ...]
    """The normalised questions are equal."""
    shared: tuple[tuple[str, str], ...]
    """The questions differ, but have a run of words in common."""


def normalise_question(text: str) -> str:
    r"""A question without case, most punctuation and LaTeX layout: `Is $\left(X\right)$?` -> `is ( x )`.

    Operators and digits stay, so that `2+3` and `2-3` remain two questions.
    """
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_SAME.get(token, token) for token in tokens if token not in _LAYOUT)


def question_key(task: Task) -> str:
    """What makes two tasks the same question: the normalised question with its options."""
    return normalise_question(" ".join((task.question, *task.choices)))


def overlap(train: TaskSet, evaluation: TaskSet, *, words: int = 13) -> Overlap:
    """Training tasks with the same question as an evaluation task, or with `words` words in a row in common.

    Runs of 13 words, those of more than ten training tasks left aside as turns of phrase (`where m and n are
    relatively prime positive integers`): Brown et al. 2020, appendix C. A shorter question is compared whole.
    """
    questions: dict[str, str] = {}
    runs: dict[tuple[str, ...], str] = {}
    for task in evaluation.tasks:
        questions.setdefault(key := question_key(task), task.id)
        for run in _runs(key, words):
            runs.setdefault(run, task.id)
    keys = [question_key(task) for task in train.tasks]
    hits = [[run for run in dict.fromkeys(_runs(key, words)) if run in runs] for key in keys]
    uses = Counter(run for found in hits for run in found)
    equal, shared = [], []
    for task, key, found in zip(train.tasks, keys, hits, strict=True):
        telling = [run for run in found if uses[run] <= _PHRASE_USES]
        if (known := questions.get(key)) is not None:
            equal.append((task.id, known))
        elif telling:
            shared.append((task.id, runs[telling[0]]))
    return Overlap(tuple(equal), tuple(shared))


def decontaminate(train: TaskSet, evaluations: Iterable[TaskSet], *, words: int = 13) -> TaskSet:
    """The training set without the tasks that overlap an evaluation set; those are named in `dropped`."""
    reasons: dict[str, str] = {}
    for evaluation in evaluations:
        found = overlap(train, evaluation, words=words)
        for id, known in found.equal:
            reasons.setdefault(id, f"same question as {evaluation.name} {known}")
        for id, known in found.shared:
            reasons.setdefault(id, f"{words} words in a row in common with {evaluation.name} {known}")
    tasks = tuple(task for task in train.tasks if task.id not in reasons)
    return replace(train, tasks=tasks, dropped=(*train.dropped, *reasons.items()))


_TOKEN = re.compile(r"\\[a-z]+|\\?[^\w\s]|[^\W\d_]+|\d+(?:\.\d+)?|_")
_COMMANDS = ("(", ")", "[", "]", ",", ";", ":", "!", "left", "right", "displaystyle", "quad")
_LAYOUT = {*"$.,;:?'\"`\u2018\u2019\u201c\u201d{}", *(rf"\{command}" for command in _COMMANDS)}
_SAME = {r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\leq": r"\le", r"\geq": r"\ge"}


def _runs(key: str, words: int) -> list[tuple[str, ...]]:
    # The code of a drawing is boilerplate: it would make strangers of one textbook look alike.
    found = re.findall(r"\w+", re.sub(r"\[ asy \].*?\[ / asy \]", " ", key))
    return [tuple(found[start : start + words]) for start in range(len(found) - words + 1)]


def _epoch_order(count: int, epoch: int, *, size: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    # An epoch that begins inside a batch depends on the one before; every `cycle` epochs one begins afresh.
    cycle = size // math.gcd(count, size)
    order = np.empty(0, np.int64)
    for current in range(epoch - epoch % cycle, epoch + 1):
        begun = current * count % size
        tail = order[count - begun :]
        order = np.random.default_rng((seed, _ORDER, current)).permutation(count)
        if begun:
            fresh = order[~np.isin(order, tail)][: size - begun]
            order = np.concatenate([fresh, order[~np.isin(order, fresh)]])
    return order

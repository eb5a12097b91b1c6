"""A generated task -> short drafts of it, right and wrong, each with the review it deserves. For imitation.

The drafts keep the Chain-of-Draft form and the reviews agree with the truth, so that a weak base learns both
forms, and what a review is for, before anything is rewarded.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seminar.errors import DataError
from seminar.tasks.draft_form import MARK
from seminar.tasks.review_form import CRITERIA, Review
from seminar.types import Task

_EQUATION = re.compile(r"(\d+)([-+*/])(\d+)=(\d+)")
_OTHER_SIGN = {"+": "-", "-": "+", "*": "+", "/": "*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDraft:
    """A draft and what a reviewer who knows would say of it."""

    text: str
    right: bool
    review: Review


class _Step(NamedTuple):
    left: int
    sign: str
    right: int
    result: int

    @property
    def formula(self) -> str:
        return f"{self.left}{self.sign}{self.right}"


def write_drafts(task: Task, *, right: Sequence[bool], seed: int) -> list[WrittenDraft]:
    """One draft for each entry of `right`, right or wrong as it says, made from `task.meta["solution"]`.

    A wrong draft has a slip in one result or a wrong sign in one step, and goes on from there in good order.
    Drafts of one task may be alike. Raises DataError for a task whose solution is no chain of equations, each
    working with the result before it (one that `tasks.generated` did not make).
    """
    steps = _steps(task)
    rng = random.Random(f"{seed}/{task.id}")
    turned = [(_turned(steps, rng), good) for good in right]
    return [_right(own) if good else _wrong(own, rng) for own, good in turned]


def _steps(task: Task) -> list[_Step]:
    solution, _, _ = str(task.meta.get("solution", "")).partition("\\boxed")
    words = [word.rstrip(".") for word in solution.split()]
    found = [_EQUATION.fullmatch(word) for word in words]
    steps = [_Step(int(m[1]), m[2], int(m[3]), int(m[4])) for m in found if m]
    if not steps or len(steps) < len(words) or str(steps[-1].result) != task.gold:
        raise DataError(
            f"task {task.id}: meta.solution is {solution!r} for gold {task.gold!r}; drafts are written for "
            "solutions in equations such as '2*3=6 6+1=7' that end in the gold. Use generated tasks."
        )
    return steps


def _turned(steps: Sequence[_Step], rng: random.Random) -> list[_Step]:
    """The steps, the two sides of + and * changed over in half of them.

    Right and wrong drafts alike, so that nothing but the fault tells them apart.
    """
    return [
        step._replace(left=step.right, right=step.left) if step.sign in "+*" and rng.random() < 0.5 else step
        for step in steps
    ]


def _right(steps: Sequence[_Step]) -> WrittenDraft:
    """The steps as they are."""
    said = f"{', '.join(f'{step.formula}={step.result}' for step in steps)}."
    review = Review(scores=dict.fromkeys(CRITERIA, 1.0), overall=1.0, feedback=said)
    return WrittenDraft(text=_text(steps), right=True, review=review)


def _wrong(steps: Sequence[_Step], rng: random.Random) -> WrittenDraft:
    """The steps with one fault, drawn among all that go on in whole numbers."""
    faults = [
        (at, fault)
        for at, step in enumerate(steps)
        for fault in (_slip(step, rng), _wrong_sign(step))
        if fault
    ]
    chains = [(at, chain) for at, fault in faults if (chain := _carried(steps, at, fault))]
    at, chain = rng.choice(chains)
    assert chain[-1].result != steps[-1].result, "a fault led back to the right answer"
    slipped = chain[at].sign == steps[at].sign
    scores = {
        "coherence": 1.0,
        "step_validity": 0.0 if slipped else 1.0,
        "relevance": 1.0 if slipped else 0.0,
        "completeness": 1.0,
        "correctness": 0.0,
    }
    true, false = steps[at], chain[at]
    said = (
        f"{true.formula}={true.result}, not {false.result}."
        if slipped
        else f"It is {true.formula}, not {false.formula}."
    )
    return WrittenDraft(
        text=_text(chain), right=False, review=Review(scores=scores, overall=0.0, feedback=said)
    )


def _slip(step: _Step, rng: random.Random) -> _Step:
    """The step with a result that is off by a little or by a ten."""
    return step._replace(
        result=rng.choice([n for d in (1, 2, 10) for n in (step.result - d, step.result + d) if n >= 0])
    )


def _wrong_sign(step: _Step) -> _Step | None:
    """The step with another sign, worked out rightly; None where that gives the same or a negative number."""
    sign = _OTHER_SIGN[step.sign]
    result = _work_out(step.left, sign, step.right)
    return None if result is None or result == step.result else step._replace(sign=sign, result=result)


def _carried(steps: Sequence[_Step], at: int, fault: _Step) -> list[_Step] | None:
    """`fault` in place of step `at`, later steps worked out from its result; None where one cannot be."""
    chain = [*steps[:at], fault]
    for old, step in zip(steps[at:], steps[at + 1 :], strict=False):
        new = chain[-1].result
        left, right = (new, step.right) if step.left == old.result else (step.left, new)
        result = _work_out(left, step.sign, right)
        if result is None:
            return None
        chain.append(_Step(left, step.sign, right, result))
    return chain


def _work_out(left: int, sign: str, right: int) -> int | None:
    """The result; None where it is negative or no whole number."""
    if sign == "/":
        return left // right if right and left % right == 0 else None
    result = {"+": left + right, "-": left - right, "*": left * right}[sign]
    return result if result >= 0 else None


def _text(steps: Sequence[_Step]) -> str:
    return "\n".join([*(f"{step.formula}={step.result}" for step in steps), f"{MARK} {steps[-1].result}"])

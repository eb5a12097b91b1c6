r"""Answers of any domain -> verdicts. Texts and plain numbers are judged here, algebra in killable processes.

A worked example: `\boxed{0.5}` against gold `1/2` never leaves this process; `\boxed{\sqrt{8}}` against
`2\sqrt{2}` is one job of the pool; `\boxed{10^{10^{10^{10}}}}` costs its own deadline and a fresh child, and
nobody else anything.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Self

from seminar.errors import ConfigError
from seminar.rewards.base import Grader
from seminar.rewards.pool import Outcome, Pool
from seminar.tasks import maths, qa
from seminar.tasks.equality import compare
from seminar.tasks.numbers import TOLERANCE
from seminar.types import Reason, StopReason, Task, Verdict

Answer = tuple[Task, str, StopReason]

_check_gold = lru_cache(maxsize=10_000)(maths.check_gold)


class Graders:
    """One door for every domain (a `Grader`): maths, qa, choice and, where given a grader, code.
    Thread-safe."""

    def __init__(
        self,
        *,
        code: Grader | None = None,
        tolerance: float = TOLERANCE,
        deadline_s: float = 5.0,
        num_workers: int | None = None,
    ) -> None:
        """`deadline_s`: wall clock of one mathematical answer. `num_workers` None: one a CPU, at most 8."""
        self._code = code
        self._tolerance = tolerance
        self._pool = Pool("seminar.rewards.algebra", num_workers=num_workers, deadline_s=deadline_s)

    @property
    def counts(self) -> Counter[str]:
        """Answers that needed algebra by outcome (done, timeout, crashed), and children `restarted`."""
        return self._pool.counts

    def grade(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in order; never raises for what an answer holds.

        A timeout or a crash is a verdict (not correct, reason `timeout` or `crashed`). Raises
        ConfigError: a code task without a grader for code; RunError: a pool that cannot start.
        """
        verdicts: list[Verdict | None] = [None] * len(answers)
        asked: dict[tuple[str, str], Future[Outcome]] = {}
        waiting: list[tuple[int, str, Future[Outcome]]] = []
        code: list[int] = []
        for place, (task, text, stop) in enumerate(answers):
            if task.domain == "maths":
                judged = self._maths(task, text, stop, asked)
                if isinstance(judged, Verdict):
                    verdicts[place] = judged
                else:
                    waiting.append((place, *judged))
            elif task.domain == "code":
                code.append(place)
            else:
                verdicts[place] = (grade_qa if task.domain == "qa" else grade_choice)(task, text, stop)
        for place, verdict in zip(code, self._grade_code([answers[k] for k in code]), strict=True):
            verdicts[place] = verdict
        for place, extracted, future in waiting:
            verdicts[place] = _verdict_of(future.result(), extracted)
        return [verdict for verdict in verdicts if verdict is not None]

    def close(self) -> None:
        """End the pool's children. The grader of code is its owner's to close."""
        self._pool.close()

    def __enter__(self) -> Self:
        """Nothing to do: children start with the first answer that needs algebra."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _maths(
        self, task: Task, text: str, stop: StopReason, asked: dict[tuple[str, str], Future[Outcome]]
    ) -> Verdict | tuple[str, Future[Outcome]]:
        """The verdict, or the extracted answer and the job that will tell; equal answers share a job."""
        if _check_gold(task.gold) is not None:
            return Verdict(correct=False, reason="unusable_gold")
        extracted = maths.extract_answer(text, cut=stop == "length")
        if extracted is None:
            return _missing(stop)
        same = compare(task.gold, extracted, leaf=_needs_algebra, tolerance=self._tolerance)
        if same is not None:
            return _judged(same, extracted)
        key = (task.gold, extracted)
        if key not in asked:
            job = {"gold": task.gold, "answer": extracted, "tolerance": self._tolerance}
            asked[key] = self._pool.submit(job)
        return extracted, asked[key]

    def _grade_code(self, answers: Sequence[Answer]) -> list[Verdict]:
        if not answers:
            return []
        if self._code is None:
            raise ConfigError(
                f"grading: task {answers[0][0].id} is a code task, and no grader for code is given. Add one: "
                "Graders(code=CodeGrader(...))."
            )
        return self._code.grade(answers)


def grade_qa(task: Task, text: str, stop: StopReason) -> Verdict:
    """Correct: exact match by HotpotQA's rules; `em` and `f1` stand in the parts."""
    if not qa.normalise_answer(task.gold):
        return Verdict(correct=False, reason="unusable_gold")
    extracted = qa.extract_answer(text, cut=stop == "length")
    if extracted is None:
        return _missing(stop, parts={"em": 0.0, "f1": 0.0})
    match = qa.match(task.gold, extracted)
    return _judged(match.em == 1, extracted, parts=match._asdict())


def grade_choice(task: Task, text: str, stop: StopReason) -> Verdict:
    """Correct: the one letter the text chooses is the gold letter; two different letters are `ambiguous`."""
    if task.gold not in qa.LETTERS[: len(task.choices)] or not task.gold:
        return Verdict(correct=False, reason="unusable_gold")
    letters = qa.read_letters(text, task.choices, cut=stop == "length")
    if not letters:
        return _missing(stop)
    if len(letters) > 1:
        return Verdict(correct=False, reason="ambiguous", extracted=", ".join(letters))
    return _judged(letters[0] == task.gold, letters[0])


def _needs_algebra(_gold: str, _answer: str) -> None:
    return None


def _judged(same: bool, extracted: str, *, parts: dict[str, float] | None = None) -> Verdict:
    reason: Reason = "correct" if same else "wrong"
    return Verdict(correct=same, reason=reason, extracted=extracted, parts=parts or {})


def _missing(stop: StopReason, *, parts: dict[str, float] | None = None) -> Verdict:
    return Verdict(correct=False, reason="truncated" if stop == "length" else "no_answer", parts=parts or {})


def _verdict_of(outcome: Outcome, extracted: str) -> Verdict:
    if outcome.status == "timeout" or outcome.status == "crashed":
        return Verdict(correct=False, reason=outcome.status, extracted=extracted)
    return _judged(
        outcome.result is True, extracted
    )  # `failed`: sympy gave up on it, so it is not shown to be right

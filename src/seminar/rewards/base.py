"""The doors of the rewards: a grader turns answers into verdicts, a reward turns a group and its verdicts
into numbers."""

from collections.abc import Sequence
from typing import Protocol

from seminar.types import StopReason, Task, Turn, Verdict


class Grader(Protocol):
    """Judges answers against gold. Never raises for what an answer holds."""

    def grade(self, answers: Sequence[tuple[Task, str, StopReason]]) -> list[Verdict]:
        """One verdict an answer, in order; `stop` tells a cut answer (`truncated`) from a missing one
        (`no_answer`)."""
        ...


class Reward(Protocol):
    """One named part of a reward. A plain function with this signature is a reward."""

    def __call__(self, task: Task, turns: Sequence[Turn], verdicts: Sequence[Verdict]) -> list[float | None]:
        """One number a turn of the group (same task, agent and prompt); None where it cannot be told."""
        ...

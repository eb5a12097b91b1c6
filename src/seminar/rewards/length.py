"""The rewards of MADA-RL (arXiv 2607.18006, section 3.2): correctness and length within the group of one
prompt."""

from collections.abc import Sequence

from seminar.types import Task, Turn, Verdict


def accuracy(task: Task, turns: Sequence[Turn], verdicts: Sequence[Verdict]) -> list[float | None]:
    """R_acc: 1 if the answer equals gold, else 0; unreadable and cut answers count as wrong. None if the
    grader failed."""
    return [None if v.reason == "unusable_gold" else float(v.correct) for v in verdicts]


def length(task: Task, turns: Sequence[Turn], verdicts: Sequence[Verdict]) -> list[float | None]:
    """R_len: short answers over long ones, in generated tokens within the group (Kimi k1.5 form).

    lam_i = 0.5 - (len_i - min) / (max - min); R_len = lam_i if correct, min(0, lam_i) if wrong.
    All lengths equal: 0 for the whole group.
    Lengths (10, 20, 30, 40), all right: .5, 1/6, -1/6, -.5; all wrong: 0, 0, -1/6, -.5.
    """
    lengths = [len(turn.completion_ids) for turn in turns]
    low, high = min(lengths), max(lengths)
    if low == high:
        return [0.0] * len(turns)
    lams = [0.5 - (n - low) / (high - low) for n in lengths]
    return [lam if v.correct else min(0.0, lam) for lam, v in zip(lams, verdicts, strict=True)]

"""The reward of MADA-RL at the values methods.md and the paper fix."""

import pytest

from seminar.rewards.length import accuracy, length
from seminar.types import Task, Turn, Verdict

TASK = Task(id="t", question="q", gold="1")


def turns(lengths):
    return [
        Turn(
            agent="a", role="generator", round=0, sample=i, adapter="a", adapter_version=0, prompt_ids=(1,),
            completion_ids=(5,) * n, engine_logprobs=(0.0,) * n, temperature=1.0, text="", stop="eos",
        )
        for i, n in enumerate(lengths)
    ]  # fmt: skip


def verdicts(flags):
    return [Verdict(correct=f, reason="correct" if f else "wrong") for f in flags]


def test_length_reward_of_right_answers():
    found = length(TASK, turns([10, 20, 30, 40]), verdicts([True] * 4))
    assert found == pytest.approx([0.5, 1 / 6, -1 / 6, -0.5])


def test_length_reward_of_wrong_answers_is_never_positive():
    found = length(TASK, turns([10, 20, 30, 40]), verdicts([False] * 4))
    assert found == pytest.approx([0, 0, -1 / 6, -0.5])


def test_extremes_are_taken_over_right_and_wrong_together():
    # lengths 10 wrong, 30 right, 50 right: lam = .5, 0, -.5 -> 0 (wrong, not positive), 0, -.5
    assert length(TASK, turns([10, 30, 50]), verdicts([False, True, True])) == pytest.approx([0, 0, -0.5])


def test_equal_lengths_give_zero():
    assert length(TASK, turns([7, 7, 7]), verdicts([True, False, True])) == [0.0, 0.0, 0.0]


def test_unreadable_answers_count_as_wrong_and_a_grader_that_cannot_tell_as_nothing():
    graded = [
        Verdict(correct=True, reason="correct"),
        Verdict(correct=False, reason="no_answer"),
        Verdict(correct=False, reason="truncated"),
        Verdict(correct=False, reason="timeout"),
        Verdict(correct=False, reason="unusable_gold"),
    ]
    assert accuracy(TASK, turns([1] * 5), graded) == [1.0, 0.0, 0.0, 0.0, None]

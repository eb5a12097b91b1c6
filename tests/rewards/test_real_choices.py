"""Every gold of the QA and the choice set, in the ways in which models write it."""

import json
from pathlib import Path
from typing import Any

import pytest

from seminar.rewards.verify import grade_choice, grade_qa
from seminar.types import Task

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
pytestmark = pytest.mark.data


def rows(name: str) -> list[dict[str, Any]]:
    path = DATA / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "form",
    [
        *("The answer is {}.", "Answer: {}", r"\boxed{{{}}}", "#### {}", "Let us see.\n{}"),
        "So we are done.\nThe answer is: **{}**. I hope this helps.",
    ],
)
def test_every_answer_of_hotpotqa_is_an_exact_match_of_itself(form):
    tasks = [
        Task(id=row["id"], question="q", gold=row["answer"], domain="qa")
        for row in rows("hotpotqa_dev_sample")
    ]
    assert len(tasks) == 200
    assert [task.gold for task in tasks if not grade_qa(task, form.format(task.gold), "eos").correct] == []


def choices() -> list[Task]:
    return [
        Task(
            id=str(k),
            question="q",
            gold="ABCD"[row["answer"]],
            domain="choice",
            choices=tuple(row["choices"]),
        )
        for k, row in enumerate(rows("mmlu_sample"))
    ]


@pytest.mark.parametrize(
    "form",
    ["({})", "{}.", "{}", "The answer is {}.", "Answer: **{}**", r"\boxed{{{}}}", "Not sure, but\n#### ({})"],
)
def test_every_letter_of_mmlu_is_read(form):
    tasks = choices()
    assert len(tasks) == 741
    assert [task for task in tasks if not grade_choice(task, form.format(task.gold), "eos").correct] == []


def test_the_text_of_an_option_is_its_letter_but_for_one_that_is_a_letter_itself():
    texts = [(task, task.choices["ABCD".index(task.gold)]) for task in choices()]
    missed = [text for task, text in texts if not grade_choice(task, text, "eos").correct]
    assert missed == ["B"]  # the symbol of boron, option D


def test_a_letter_with_its_text_is_read():
    texts = [(task, f"{task.gold}. {task.choices['ABCD'.index(task.gold)]}") for task in choices()]
    missed = [text for task, text in texts if not grade_choice(task, text, "eos").correct]
    assert missed == []

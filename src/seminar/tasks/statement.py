"""A task -> the whole text an agent is asked: examples, paragraphs, question, options. Never the gold."""

from collections.abc import Sequence

from seminar.tasks.mapping import LETTERS
from seminar.types import Task


def statement(task: Task) -> str:
    """What stands in a prompt for the task; for a plain question that is the question itself.

    Worked example: an MMLU task with one shot -> the shot's question, its options `A.` to `D.`, `Answer: C`,
    an empty line, then the task's own question and options.
    """
    shots = [
        f"{_with_options(shot['question'], shot['choices'])}\nAnswer: {shot['gold']}"
        for shot in task.meta.get("shots", ())
    ]
    paragraphs = [f"{title}\n{text}" if title else text for title, text in task.context]
    return "\n\n".join([*shots, *paragraphs, _with_options(task.question, task.choices)])


def _with_options(question: str, choices: Sequence[str]) -> str:
    options = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    return "\n".join([question, *options])

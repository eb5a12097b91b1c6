"""Reference solutions and stubs of HumanEval and MBPP through the sandbox."""

import ast
from pathlib import Path

import pytest

from seminar.rewards.execution import CodeGrader
from seminar.tasks.named import load
from seminar.types import StopReason, Task

DATA = Path(__file__).parents[2] / "../shared/data"
pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="no rows in ../shared/data"),
]
SETS = [
    ("humaneval", None, 164),
    *(
        ("mbpp", split, count)
        for split, count in (("train", 374), ("test", 500), ("validation", 90), ("prompt", 10))
    ),
    *(
        ("mbpp_sanitized", split, n)
        for split, n in (("train", 120), ("test", 257), ("validation", 43), ("prompt", 7))
    ),
]


def tasks(name: str, split: str | None) -> tuple[Task, ...]:
    return load(name, path=DATA / f"{name}.jsonl", split=split).tasks


def passing(answers: list[tuple[Task, str]]) -> list[str]:
    """Ids of the tasks that a text passes."""
    stop: StopReason = "eos"
    verdicts = CodeGrader(workers=2).grade([(task, text, stop) for task, text in answers])
    return [task.id for (task, _), verdict in zip(answers, verdicts, strict=True) if verdict.correct]


@pytest.mark.parametrize(("name", "split", "count"), SETS)
def test_every_reference_solution_passes(name: str, split: str | None, count: int) -> None:
    answers = [(task, f"```python\n{task.meta['solution']}\n```") for task in tasks(name, split)]
    assert len(passing(answers)) == count


def test_every_reference_solution_of_humaneval_passes_as_a_continuation() -> None:
    answers = [(task, task.meta["solution"].removeprefix(task.question)) for task in tasks("humaneval", None)]
    assert len(passing(answers)) == 164


@pytest.mark.parametrize("body", ["pass", "return None"])
@pytest.mark.parametrize(("name", "split", "count"), SETS)
def test_no_empty_body_passes(name: str, split: str | None, count: int, body: str) -> None:
    answers = [(task, f"```\n{stubbed(task.meta['solution'], body)}\n```") for task in tasks(name, split)]
    assert len(answers) == count
    assert passing(answers) == []


def stubbed(solution: str, body: str) -> str:
    """The solution with every function emptied."""
    tree = ast.parse(solution)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass() if body == "pass" else ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree))

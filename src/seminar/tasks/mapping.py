"""Rows and a mapping of their columns -> a task set; rows that nobody could grade are dropped and named."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from seminar.errors import DataError
from seminar.tasks.rows import Row, read_rows
from seminar.tasks.taskset import TaskSet
from seminar.types import Domain, Task

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def assemble(rows: Iterable[Row], adapt: Callable[[Row, int], Task], *, name: str) -> TaskSet:
    """Rows -> a task set; `adapt` makes a task of a row and its number. Unusable tasks go to `dropped`."""
    tasks, dropped = [], []
    for number, row in enumerate(rows):
        task = adapt(row, number)
        if reason := unusable(task):
            dropped.append((task.id, reason))
        else:
            tasks.append(task)
    return TaskSet(name=name, tasks=tuple(tasks), dropped=tuple(dropped))


def load_mapped(
    source: str | Path,
    *,
    domain: Domain = "maths",
    question: str = "question",
    gold: str | None = "answer",
    choices: str | Sequence[str] | None = None,
    context: str | None = None,
    tests: str | None = None,
    id: str | None = None,
    meta: Sequence[str] = (),
    config: str | None = None,
    split: str | None = None,
    name: str | None = None,
) -> TaskSet:
    """Any set by a mapping of its columns, from a hub id or a local file.

    `choices` names one column with a list, or one column an option; the gold of a choice task is a letter,
    a 0-based number or the option's text. `context` names a column with a text or with (title, text) pairs,
    `tests` one with Python source or a list of it. Without `id` the rows are numbered. Columns in `meta` are
    kept as they are.
    """
    label = name or Path(source).stem

    def adapt(row: Row, number: int) -> Task:
        options = _options(row, choices)
        answer = row[gold] if gold else None
        return Task(
            id=as_text(row[id]) if id else str(number),
            question=as_text(row[question]),
            gold=as_letter(answer, options) if domain == "choice" else as_text(answer),
            domain=domain,
            source=label,
            choices=options,
            context=_paragraphs(row, context) if context else (),
            tests=as_source(row[tests]) if tests else "",
            meta={column: row[column] for column in meta},
        )

    return assemble(read_rows(source, config=config, split=split), adapt, name=label)


def unusable(task: Task) -> str | None:
    """Why nobody could grade this task; None where it is fine."""
    if not task.question.strip():
        return "the question is empty"
    if task.domain == "code":
        return _bad_tests(task.tests)
    if not task.gold.strip():
        return "there is no gold answer"
    if task.domain == "choice" and task.gold not in [*LETTERS[: len(task.choices)]]:
        return f"gold `{task.gold}` is no letter, number or text of the {len(task.choices)} options"
    return None


def as_text(cell: Any) -> str:
    """A cell as text without outer blanks; a whole float loses its `.0` (27.0 -> `27`), None is empty."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        cell = int(cell)
    return "" if cell is None else str(cell).strip()


def as_letter(answer: Any, choices: Sequence[str]) -> str:
    """The letter of a gold given as letter, 0-based number or an option's text; else the answer as text."""
    letters: list[str] = [*LETTERS[: len(choices)]]
    if isinstance(answer, int) and 0 <= answer < len(letters):
        return letters[answer]
    text = as_text(answer)
    if text not in letters and list(choices).count(text) == 1:
        return letters[list(choices).index(text)]
    return text


def as_source(cell: Any) -> str:
    """Python source from a cell that holds it, or a list of its pieces; line ends become those of Unix."""
    return (cell if isinstance(cell, str) else "\n".join(cell)).replace("\r\n", "\n")


def _options(row: Row, choices: str | Sequence[str] | None) -> tuple[str, ...]:
    if choices is None:
        return ()
    cells = row[choices] if isinstance(choices, str) else [row[column] for column in choices]
    if not isinstance(cells, list) or len(cells) > len(LETTERS):
        raise DataError(
            f"{row.where}: `{choices}` is {cells!r}; a list of up to {len(LETTERS)} is needed. "
            "Name a column that holds a list, or one column an option."
        )
    return tuple(as_text(cell) for cell in cells)


def _paragraphs(row: Row, column: str) -> tuple[tuple[str, str], ...]:
    cell = row[column]
    if isinstance(cell, str):
        return (("", cell),)
    try:
        return tuple((str(title), str(text)) for title, text in cell)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{row.where}: column `{column}` is {cell!r:.80}; it must hold a text or (title, text) pairs."
        ) from error


def _bad_tests(tests: str) -> str | None:
    if not tests.strip():
        return "there are no tests"
    try:
        compile(tests, "tests", "exec")
    except (SyntaxError, ValueError) as error:
        return f"the tests are not Python ({error})"
    return None

"""Rows and a mapping of their columns -> a task set; rows that nobody could grade are dropped and named."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from seminar.errors import ConfigError, DataError
from seminar.tasks.code import exercise, unix_lines
from seminar.tasks.maths import check_gold
from seminar.tasks.rows import Row, read_rows
from seminar.tasks.taskset import TaskSet
from seminar.types import Domain, Task

Value = TypeVar("Value", str, int)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Dropped = tuple[str, str]
"""(id, reason) of a row that becomes no task."""


def assemble(rows: Iterable[Row], adapt: Callable[[Row], Task | Dropped], *, name: str) -> TaskSet:
    """Rows -> a task set; `adapt` makes a task of a row. What nobody could grade is dropped and named.

    Errors: DataError where a column is missing or holds another kind of value: that is no fault of one row.
    """
    tasks: list[Task] = []
    dropped: list[Dropped] = []
    for row in rows:
        try:
            made = adapt(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{row.where}: a column does not hold what {name} needs ({type(error).__name__}: {error}). "
                "Check the columns of the file and the mapping."
            ) from error
        if isinstance(made, Task):
            reason = unusable(made)
            made = (made.id, reason) if reason else made
        if isinstance(made, Task):
            tasks.append(replace(made, source=name))
        else:
            dropped.append(made)
    return TaskSet(name=name, tasks=tuple(tasks), dropped=tuple(dropped))


def load_mapped(
    source: str | Path,
    *,
    domain: Domain = "maths",
    question: str = "question",
    gold: str = "answer",
    choices: str | Sequence[str] = "choices",
    context: str | None = None,
    tests: str = "tests",
    entry_point: str | None = None,
    id: str | None = None,
    config: str | None = None,
    split: str | None = None,
) -> TaskSet:
    """Any set by a mapping of its columns, from a hub id or a local file.

    `choices` (of choice tasks) names one column with a list, or one column an option; their gold is a
    letter, a 0-based number or the option's text. `context` names a column with a text or with (title,
    text) pairs. Code tasks have no gold but `tests`: Python source or a list of it, which calls what a
    program defines, or a `check(candidate)` for the function that the column `entry_point` names. Without
    `id` the rows are numbered.
    """

    def adapt(row: Row) -> Task:
        options = as_options(row, choices) if domain == "choice" else ()
        return Task(
            id=as_text(row[id]) if id else str(row.number),
            question=as_text(row[question]),
            gold="" if domain == "code" else as_letter(row[gold], options),
            domain=domain,
            choices=options,
            context=_paragraphs(row[context]) if context else (),
            tests=as_source(row[tests]) if domain == "code" else "",
            meta={"entry_point": row[entry_point]} if entry_point else {},
        )

    return assemble(read_rows(source, config=config, split=split), adapt, name=Path(source).stem)


def unusable(task: Task) -> str | None:
    """Why nobody could grade this task; None where it is fine."""
    if not task.question.strip():
        return "the question is empty"
    if task.domain == "code":
        return None if exercise(task) else "the tests are no Python, or use nothing that a program defines"
    if not task.gold.strip():
        return "there is no gold answer"
    if task.domain == "maths" and (reason := check_gold(task.gold)):
        return f"gold `{task.gold:.60}`: {reason}"
    if task.domain == "choice" and task.gold not in [*LETTERS[: len(task.choices)]]:
        return f"gold `{task.gold}` is no letter, number or text of the {len(task.choices)} options"
    return None


def chosen(what: str, asked: Collection[Value], known: Iterable[Value]) -> list[Value]:
    """The values asked for, all known ones where none is asked; an unknown one is a ConfigError."""
    allowed = list(known)
    for value in asked:
        if value not in allowed:
            near = get_close_matches(str(value), map(str, allowed), n=1, cutoff=0.0)[0]
            raise ConfigError(
                f"{what} holds `{value}`; known are {', '.join(map(str, allowed))}. The nearest is `{near}`."
            )
    return list(asked) or allowed


def as_text(cell: Any) -> str:
    """A cell as text without outer blanks; a whole float loses its `.0` (27.0 -> `27`), None is empty."""
    if isinstance(cell, list | dict):
        raise TypeError(f"{cell!r:.60} where a text or a number is needed")
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        cell = int(cell)
    return "" if cell is None or cell != cell else str(cell).strip()  # a missing number is one unlike itself


def as_letter(answer: Any, choices: Sequence[str]) -> str:
    """The letter of a gold given as letter, 0-based number or an option's text; else the answer as text."""
    letters: list[str] = [*LETTERS[: len(choices)]]
    if isinstance(answer, int | float) and answer in range(len(letters)):
        return letters[int(answer)]
    text = as_text(answer)
    if text not in letters and list(choices).count(text) == 1:
        return letters[list(choices).index(text)]
    return text


def as_options(row: Row, choices: str | Sequence[str]) -> tuple[str, ...]:
    """The options of a row, from one column that holds a list or from one column an option."""
    cells = row[choices] if isinstance(choices, str) else [row[column] for column in choices]
    if not isinstance(cells, list) or len(cells) > len(LETTERS):
        raise DataError(
            f"{row.where}: `{choices}` is {cells!r}; a list of up to {len(LETTERS)} is needed. "
            "Name a column that holds a list, or one column an option."
        )
    return tuple(as_text(cell) for cell in cells)


def as_source(cell: Any) -> str:
    """Python source from a cell that holds it, or a list of its pieces; line ends become those of Unix."""
    return unix_lines(cell if isinstance(cell, str) else "\n".join(cell))


def _paragraphs(cell: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(cell, str):
        return (("", cell),)
    return tuple((str(title), str(text)) for title, text in cell)

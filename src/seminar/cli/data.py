"""`seminar data list|show|check`: names and files of data sets in, what they hold out."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from seminar.errors import ConfigError
from seminar.tasks.mapping import load_mapped
from seminar.tasks.named import NAMED, load
from seminar.tasks.rows import is_file
from seminar.tasks.statement import statement
from seminar.tasks.taskset import TaskSet, overlap, question_key
from seminar.types import Domain, Task

app = typer.Typer(
    no_args_is_help=True, help="Data sets: which there are, what they hold, whether they are clean."
)

Name = Annotated[str, typer.Argument(help="A name of `seminar data list`, or a file of your own.")]
PathOption = Annotated[
    Path | None, typer.Option("--path", help="Local file of a named set, in place of the hub.")
]
Split = Annotated[str | None, typer.Option("--split", help="Split; without it the set's default.")]
Subjects = Annotated[list[str] | None, typer.Option("--subject", help="Only this subject; may be repeated.")]
Levels = Annotated[list[int] | None, typer.Option("--level", help="Only this level; may be repeated.")]
Columns = Annotated[list[str] | None, typer.Option("--column", help="Of a file of your own: FIELD=COLUMN.")]
DomainOption = Annotated[Domain, typer.Option("--domain", help="Of a file of your own.")]


@app.command("list")
def list_names() -> None:
    """Show every named data set: its hub id, its splits (the first is the default) and their rows."""
    for name, entry in NAMED.items():
        sizes = ", ".join(f"{split} {size:,}" for split, size in entry.sizes.items())
        typer.echo(f"{name:15} {entry.published[0].hub:42} {sizes}")


@app.command()
def show(
    name: Name,
    path: PathOption = None,
    split: Split = None,
    subject: Subjects = None,
    level: Levels = None,
    shots: Annotated[int, typer.Option(min=0, help="Worked examples before the question (mmlu).")] = 0,
    column: Columns = None,
    domain: DomainOption = "maths",
    id: Annotated[str | None, typer.Option("--id", help="Task to show; the first without it.")] = None,
) -> None:
    """Show one task as an agent reads it, with its gold and its facts."""
    tasks = _load(name, path, split, subject, level, column, domain, shots=shots)
    task = next((task for task in tasks.tasks if id in (None, task.id)), None)
    if task is None:
        raise ConfigError(f"id is {id}; {tasks.name} has no such task. The first is {tasks.tasks[0].id}.")
    if name in NAMED:
        typer.echo(f"{NAMED[name].about}\n")
    typer.echo(f"{statement(task)}\n")
    facts = {"id": task.id, "domain": task.domain, "gold": task.gold, "tests": task.tests, **task.meta}
    for fact, value in facts.items():
        if value and fact != "shots":
            typer.echo(
                f"{fact}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            )


@app.command()
def check(
    name: Name,
    path: PathOption = None,
    split: Split = None,
    subject: Subjects = None,
    level: Levels = None,
    column: Columns = None,
    domain: DomainOption = "maths",
    against: Annotated[
        list[str] | None, typer.Option(help="Evaluation set: a name, a file or NAME=FILE; may be repeated.")
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="Words in a row that make two questions alike.")] = 13,
) -> None:
    """Count the tasks, name what was dropped and what repeats, and what evaluation sets know of them."""
    tasks = _load(name, path, split, subject, level, column, domain)
    rows = len(tasks.tasks) + len(tasks.dropped)
    typer.echo(f"{tasks.name}: {len(tasks.tasks):,} tasks of {rows:,} rows")
    _report("dropped", tasks.dropped)
    _report("repeated questions", _repeats(tasks))
    for other in against or []:
        known_name, _, file = other.partition("=")
        evaluation = _load(known_name, Path(file) if file else None)
        found = overlap(tasks, evaluation, words=words)
        pairs = [(id, f"same question as {known}") for id, known in found.equal]
        pairs += [(id, f"{words} words in a row in common with {known}") for id, known in found.shared]
        _report(f"known to {evaluation.name} ({len(evaluation.tasks):,} tasks)", pairs)


def _load(
    name: str,
    path: Path | None = None,
    split: str | None = None,
    subjects: list[str] | None = None,
    levels: list[int] | None = None,
    columns: list[str] | None = None,
    domain: Domain = "maths",
    *,
    shots: int = 0,
) -> TaskSet:
    if not is_file(name):
        if columns or domain != "maths":
            raise ConfigError(
                f"{name} is no file; column and domain are for files of your own. Leave them out."
            )
        return load(name, path=path, split=split, subjects=subjects or (), levels=levels or (), shots=shots)
    if path or split or subjects or levels or shots:
        raise ConfigError(
            f"{name} is a file of your own; path, split, subject, level and shots are for names."
        )
    fields = ("question", "gold", "choices", "context", "tests", "id")
    mapping = {}
    for pair in columns or []:
        field, _, column = pair.partition("=")
        if field not in fields or not column:
            raise ConfigError(
                f"column is {pair}; FIELD=COLUMN is needed, with FIELD one of {', '.join(fields)}."
            )
        mapping[field] = column
    return load_mapped(name, domain=domain, **mapping)


def _report(what: str, lines: Iterable[tuple[str, str]]) -> None:
    lines = list(lines)
    typer.echo(f"{what}: {len(lines):,}")
    for id, reason in lines:
        typer.echo(f"  {id}: {reason}")


def _repeats(tasks: TaskSet) -> list[tuple[str, str]]:
    """(id, reason) of tasks whose question stands further up; two golds are named: one is wrong."""
    first: dict[str, Task] = {}
    repeats = []
    for task in tasks.tasks:
        kept = first.setdefault(question_key(task), task)
        if kept is not task:
            other = "" if kept.gold == task.gold else f", but gold `{task.gold}` and not `{kept.gold}`"
            repeats.append((task.id, f"same question as {kept.id}{other}"))
    return repeats

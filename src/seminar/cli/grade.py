"""`seminar grade`: golds and predictions of any origin in, the same rows with verdicts out."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from seminar.errors import ConfigError, DataError
from seminar.evaluate.stats import wilson
from seminar.jsonl import encode
from seminar.rewards.execution import CodeGrader
from seminar.rewards.verify import Answer, Graders
from seminar.tasks.mapping import LETTERS, as_letter, as_source, as_text
from seminar.tasks.numbers import TOLERANCE
from seminar.types import Domain, Task, Verdict

WINDOW = 512
"""Rows in memory at a time."""


def grade(
    source: Annotated[str, typer.Option("--in", help="JSON lines; - is standard input.")],
    target: Annotated[str, typer.Option("--out", help="JSON lines; - is standard output.")],
    domain: Annotated[Domain, typer.Option(help="How answers are judged.")] = "maths",
    gold_field: Annotated[str, typer.Option(help="Default: gold; for code: tests.")] = "",
    prediction_field: Annotated[str, typer.Option(help="Default: prediction; for code: completion.")] = "",
    choices_field: Annotated[
        str, typer.Option(help="Texts of the options; without them A to D.")
    ] = "choices",
    tolerance: Annotated[float, typer.Option(min=0, help="Relative, for decimals (maths).")] = TOLERANCE,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds an answer may take (maths).")] = 5.0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that judge side by side.")] = 2,
) -> None:
    """Grade any file of golds and predictions: adds correct, reason, extracted, and for QA em and f1.

    Rows keep their order and fields. A prediction is a whole answer or a bare result; a row whose
    field `stop` is "length" was cut by the token limit. Code rows hold tests, completion and, where they have
    them, prompt, entry_point and solution. A bad line is named and left out; the exit code is then 1.
    """
    code = domain == "code"
    fields = _Fields(
        domain=domain,
        gold=gold_field or ("tests" if code else "gold"),
        prediction=prediction_field or ("completion" if code else "prediction"),
        choices=choices_field,
    )
    tally = _Tally()
    with ExitStack() as stack:
        lines = stack.enter_context(_reading(source))
        out = stack.enter_context(_writing(target, source))
        graders = stack.enter_context(
            Graders(
                code=CodeGrader(workers=workers) if code else None,
                tolerance=tolerance,
                deadline_s=deadline,
                num_workers=workers,
            )
        )
        rows = _rows(lines, fields, tally)
        while window := list(islice(rows, WINDOW)):
            verdicts = graders.grade([answer for _, answer in window])
            for (row, _), verdict in zip(window, verdicts, strict=True):
                tally.add(verdict)
                out.write(encode({**row, **_columns(verdict)}))
            out.flush()
    typer.echo(tally.summary(), err=True)
    if tally.bad:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    domain: Domain
    gold: str
    prediction: str
    choices: str


@dataclass(slots=True)
class _Tally:
    """Counts alone, so that a million rows need no memory."""

    reasons: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    bad: int = 0

    def add(self, verdict: Verdict) -> None:
        self.reasons[verdict.reason] += 1
        self.parts.update(verdict.parts)

    def summary(self) -> str:
        n = self.reasons.total()
        correct = self.reasons["correct"]
        rate = f"{correct / n:.1%}" if n else "-"
        low, high = wilson(correct, n)
        interval = f"95 % interval {low:.1%} to {high:.1%} (Wilson)" if n > 1 else "too few for an interval"
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
        lines = [
            f"{n:,} graded, {correct:,} correct: {rate}, {interval}",
            f"reasons: {reasons or 'none'}",
        ]
        lines += [f"mean {name}: {total / n:.3f}" for name, total in self.parts.items()]
        return "\n".join([*lines, f"bad lines: {self.bad:,}"] if self.bad else lines)


def _rows(lines: IO[bytes], fields: _Fields, tally: _Tally) -> Iterator[tuple[dict[str, Any], Answer]]:
    """Good rows and what to grade of them; bad lines are named on standard error and counted."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise DataError(f"it is a {type(row).__name__}; each line must be one JSON object")
            yield row, _answer(row, fields, number)
        except (ValueError, RecursionError, DataError) as error:
            tally.bad += 1
            typer.echo(f"line {number}: {error}", err=True)


def _answer(row: dict[str, Any], fields: _Fields, number: int) -> Answer:
    """The task and the answer of a row. Raises DataError for a row that lacks a field or holds it wrongly."""
    code = fields.domain == "code"
    gold, prediction = _cell(row, fields.gold, lists=code), _cell(row, fields.prediction)
    choices: tuple[str, ...] = ()
    if fields.domain == "choice":
        choices = tuple(as_text(choice) for choice in row.get(fields.choices, ("",) * 4))
        if len(choices) > len(LETTERS):
            raise DataError(
                f"`{fields.choices}` has {len(choices)} options; at most {len(LETTERS)} are allowed"
            )
    task = Task(
        id=str(number),
        question=as_text(row.get("prompt")) if code else "",
        gold=as_letter(gold, choices) if fields.domain == "choice" else "" if code else as_text(gold),
        domain=fields.domain,
        choices=choices,
        tests=as_source(gold) if code else "",
        meta={key: row[key] for key in ("entry_point", "solution") if row.get(key)} if code else {},
    )
    return task, as_text(prediction), "length" if row.get("stop") == "length" else "eos"


def _cell(row: dict[str, Any], name: str, *, lists: bool = False) -> Any:
    """A text or a number, and with `lists` a list of texts; null is an empty text."""
    if name not in row:
        raise DataError(f"it has no field `{name}`; its fields are {', '.join(row)}. Name yours by an option")
    cell = row[name]
    texts = lists and isinstance(cell, list) and all(isinstance(item, str) for item in cell)
    if isinstance(cell, bool) or not (texts or cell is None or isinstance(cell, str | int | float)):
        raise DataError(f"`{name}` is a {type(cell).__name__}; a text or a number is needed")
    return cell


def _columns(verdict: Verdict) -> dict[str, Any]:
    return {
        "correct": verdict.correct,
        "reason": verdict.reason,
        "extracted": verdict.extracted,
        **verdict.parts,
    }


def _reading(source: str) -> AbstractContextManager[IO[bytes]]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return open(source, "rb")
    except OSError as error:
        raise DataError(
            f"--in {source} cannot be read ({error.strerror}). Give a file of JSON lines."
        ) from error


def _writing(target: str, source: str) -> AbstractContextManager[IO[bytes]]:
    if target == "-":
        return nullcontext(sys.stdout.buffer)
    if source != "-" and Path(target).exists() and Path(target).samefile(source):
        raise ConfigError(f"--out {target} is the file of --in, which would be lost. Name another file.")
    try:
        return open(target, "wb")
    except OSError as error:
        raise DataError(f"--out {target} cannot be written ({error.strerror}). Name another file.") from error

"""Sections of labelled rows -> report.md and results.json in a folder, and the same tables for a terminal."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import rich.box
import rich.console
from rich.table import Table
from rich.text import Text

from seminar.atomic import write_atomic
from seminar.evaluate.stats import Estimate
from seminar.jsonl import encode
from seminar.manifest import to_json

Unit = Literal["%", "points", ""]
"""How a value is shown: a fraction in per cent, a difference of fractions in signed points, or a number."""

_LEGEND = """95 % intervals are clustered by task. n: observations; for a rate, their sum and their number.
tasks: clusters among them (runs, for a test over seeds). left out: observations without a value. unknown: too
few observations, or none that differ."""


class Row(NamedTuple):
    """One line of a table."""

    label: str
    value: Estimate | float | str
    unit: Unit = ""
    note: str = ""


class Picture(NamedTuple):
    """An image beside the report."""

    caption: str
    path: str
    """Relative to the report's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, a paragraph, a table, pictures; each but the heading may be missing."""

    title: str
    text: str = ""
    """Markdown."""
    rows: tuple[Row, ...] = ()
    pictures: tuple[Picture, ...] = ()


def facts(title: str, found: Mapping[str, object], *, text: str = "") -> Section:
    """A section of settings or counts: sampling, `visible`, versions, seeds, decontamination."""
    return Section(
        title=title, text=text, rows=tuple(Row(name, _fact(value)) for name, value in found.items())
    )


def write(folder: Path, *, title: str, sections: Sequence[Section]) -> None:
    """Write report.md and results.json, with the same numbers, each whole or not at all. Raises RunError."""
    content = [
        {"title": section.title, "rows": [row._asdict() for row in section.rows]} for section in sections
    ]
    strict: dict[str, Any] = json.loads(encode({"title": title, "sections": content}))
    write_atomic(folder / "results.json", to_json(strict))
    write_atomic(folder / "report.md", markdown(title, sections).encode())


def markdown(title: str, sections: Iterable[Section]) -> str:
    """The report as Markdown."""
    blocks = [f"# {title}"]
    for section in sections:
        blocks.append(f"## {section.title}")
        if section.text:
            blocks.append(section.text)
        if section.rows:
            header, *body = _table(section.rows)
            lines = [header, ["---:" if right else "---" for right in _to_the_right(header)], *body]
            blocks.append("\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines))
        blocks += [f"![{_cell(picture.caption)}]({picture.path})" for picture in section.pictures]
    return "\n\n".join([*blocks, _LEGEND]) + "\n"


def terminal(sections: Iterable[Section], *, width: int = 100) -> str:
    """The tables as text of at most `width` columns; the methods and the seeds are in the report only."""
    out = rich.console.Console(file=StringIO(), width=width, highlight=False, emoji=False)
    for section in sections:
        if not section.rows:
            continue
        header, *body = _table(section.rows)
        table = Table(title=Text(section.title), title_justify="left", box=rich.box.SIMPLE_HEAD)
        for name, right in zip(header, _to_the_right(header), strict=True):
            if name not in _REPORT_ONLY:
                table.add_column(name, justify="right" if right else "left", no_wrap=right)
        for line in body:
            cells = zip(header, line, strict=True)
            table.add_row(*(Text(cell) for name, cell in cells if name not in _REPORT_ONLY))
        out.print(table)
    assert isinstance(out.file, StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def shown(value: Estimate | float | str, unit: Unit = "") -> str:
    """A value as every table shows it, without its interval; a plain number without a unit as it is."""
    if isinstance(value, Estimate):
        return _number(value.value, unit)
    return str(value) if isinstance(value, str) or not unit else _number(value, unit)


def interval(estimate: Estimate, unit: Unit = "") -> str:
    """The 95 % interval of an estimate as every table shows it."""
    if isnan(estimate.low):
        return "unknown"
    return f"[{_number(estimate.low, unit, bare=True)}, {_number(estimate.high, unit, bare=True)}]"


def _number(value: float, unit: Unit, *, bare: bool = False) -> str:
    if isnan(value):
        return "unknown"
    if unit == "%":
        return f"{100 * value:.1f}" + ("" if bare else " %")
    if unit == "points":
        return f"{100 * value:+.1f}" + ("" if bare else " points")
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _share(row: Row) -> str:
    """Numerator and denominator of a rate, the number of observations of anything else."""
    assert isinstance(row.value, Estimate)
    if row.unit != "%" or isnan(row.value.value):
        return f"{row.value.n:,}"
    total = f"{row.value.value * row.value.n:,.1f}".removesuffix(".0")
    return f"{total} of {row.value.n:,}"


def _p(p: float | None) -> str:
    if p is None:
        return ""
    return "unknown" if isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def _ranges(seeds: Sequence[int]) -> str:
    """Sorted seeds with runs joined: 0-4, 7."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_REPORT_ONLY = ("seeds", "method")
_OF_ESTIMATES: Mapping[str, Callable[[Row, Estimate], str]] = {
    "95 % interval": lambda row, estimate: interval(estimate, row.unit),
    "n": lambda row, _: _share(row),
    "tasks": lambda _, estimate: f"{estimate.clusters:,}",
    "left out": lambda _, estimate: f"{estimate.missing:,}" if estimate.missing else "",
    "p": lambda _, estimate: _p(estimate.p),
    "seeds": lambda _, estimate: _ranges(estimate.seeds),
    "method": lambda _, estimate: estimate.method,
}


def _table(rows: Sequence[Row]) -> list[list[str]]:
    """Header and lines of cells; columns in which no row has anything are left out."""
    columns = {"": [row.label for row in rows], "value": [shown(row.value, row.unit) for row in rows]}
    for name, cell in _OF_ESTIMATES.items():
        columns[name] = [cell(row, row.value) if isinstance(row.value, Estimate) else "" for row in rows]
    columns["note"] = [row.note for row in rows]
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return [list(kept), *(list(line) for line in zip(*kept.values(), strict=True))]


def _to_the_right(header: Sequence[str]) -> list[bool]:
    """Which columns hold numbers: none in a table of settings."""
    estimates = "95 % interval" in header
    return [
        estimates and name in ("value", "95 % interval", "n", "tasks", "left out", "p") for name in header
    ]


def _cell(text: str) -> str:
    """Text that stays inside its cell and starts no HTML tag."""
    return _TAG.sub("&lt;", " ".join(text.split())).replace("|", "\\|")


def _fact(value: object) -> float | str:
    if isinstance(value, int | float):
        return value
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

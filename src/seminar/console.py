"""Progress, episodes and notes in, lines for a person out: bars on a terminal, plain lines elsewhere."""

import unicodedata
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Any, Self

import rich.console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

_SHOWN = ("reward", "accuracy", "validation", "nll", "kl")
"""Metrics of a step worth a place on its line, where the step has them."""

_HEAD, _TAIL = 200, 400
"""Characters of a completion that an episode shows; the tail holds the answer, so it gets more."""

_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Console:
    """What a person sees of a run. A context manager, so that the terminal is left as it was found."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        out: rich.console.Console | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`quiet` shows nothing; `out` defaults to standard output; `clock` gives seconds."""
        self._out = out or rich.console.Console(highlight=False, emoji=False)
        self._quiet = quiet
        self._clock = clock
        self._bars = _bars(self._out) if self._out.is_interactive and not quiet else None
        self._bar: TaskID | None = None
        self._stage, self._total, self._first, self._began = "", 0, 0, 0.0

    def stage(self, name: str, *, total: int, done: int = 0) -> None:
        """Begin a stage of `total` steps, of which a resumed run has `done` already."""
        self._stage, self._total, self._first, self._began = name, total, done, self._clock()
        if self._bars is not None:
            self._bars.start()
            self._bar = self._bars.add_task(clean(name), total=total, completed=done, shown="")
        else:
            self.note(f"{name}: {total} steps" + (f", goes on after step {done}" if done else ""))

    def step(self, done: int, metrics: Mapping[str, Any], *, tokens_s: float | None = None) -> None:
        """Show that `done` steps of the stage are finished, with the metrics of the last one."""
        shown = [f"{name} {metrics[name]:.3g}" for name in _SHOWN if metrics.get(name) is not None]
        if tokens_s is not None:
            shown.append(f"{tokens_s:,.0f} tokens/s")
        if self._bars is not None and self._bar is not None:
            self._bars.update(self._bar, completed=done, shown="  ".join(shown))
        else:
            shown.append(f"{self._time_left(done)} left")
            self.note(f"{self._stage} {done}/{self._total}  " + "  ".join(shown))

    def episode(self, row: Mapping[str, Any]) -> None:
        """Show one row of episodes.jsonl: the question, and each sample with its rewards and advantage."""
        quoted = (
            "" if row.get("baseline") is None else f", right among the quoted answers: {row['baseline']:.2f}"
        )
        lines = [
            f"── {row['agent']} at step {row['step']}, task {row['task']}",
            f"   question: {shorten(row['question'])}",
            f"   gold: {row['gold']}{quoted}",
        ]
        for number, sample in enumerate(row["samples"]):
            parts = ", ".join(f"{name} {value:.2f}" for name, value in (sample["parts"] or {}).items())
            lines.append(
                f"   [{number}] reward {_signed(sample['reward'])} ({parts or 'unscored'})  advantage "
                f"{_signed(sample['advantage'])}  {sample['tokens']} tokens, {sample['stop']}"
            )
            lines += [f"       {line}" for line in shorten(sample["text"]).split("\n")]
        self.note("\n".join(lines))

    def note(self, text: str) -> None:
        """Show text as it is: nothing in it is markup, nothing in it steers the terminal."""
        if not self._quiet:
            self._out.print(Text(clean(text)), soft_wrap=True)

    def close(self) -> None:
        """Leave the bars as they stand and give the terminal back."""
        if self._bars is not None:
            self._bars.stop()

    def __enter__(self) -> Self:
        """Nothing to do: the first stage starts the bars."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _time_left(self, done: int) -> timedelta | str:
        played = done - self._first
        if played <= 0:
            return "?"
        return timedelta(seconds=round((self._clock() - self._began) / played * (self._total - done)))


def clean(text: str) -> str:
    r"""Text safe to print: what would steer a terminal or reorder a line becomes a visible escape (\x1b)."""
    return "".join(char if _harmless(char) else ascii(char)[1:-1] for char in text)


def shorten(text: str) -> str:
    """The head and the tail of a long text, with the number of characters left out between them."""
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]} [… {left_out:,} characters …] {text[-_TAIL:]}"


def _harmless(char: str) -> bool:
    return char in "\n\t" or (unicodedata.category(char) not in ("Cc", "Cs") and char not in _REORDERING)


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.3f}"


def _bars(out: rich.console.Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[shown]}", markup=False),
        TimeRemainingColumn(),
        console=out,
    )

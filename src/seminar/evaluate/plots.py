"""Rows of metrics.jsonl -> a picture of reward, accuracy and KL, a curve an agent. matplotlib loads late."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seminar.atomic import write_atomic
from seminar.errors import ConfigError
from seminar.evaluate.report import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "training.png"

_PANELS = {"reward": "reward", "accuracy": "accuracy", "kl": "KL to reference\n(nats a token)"}
_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito: safe for all eyes
_WINDOW = 5
"""Steps of the trailing mean drawn over the single steps."""

_Curve = list[tuple[int, float]]


def plot_training(rows: Iterable[Mapping[str, Any]], *, folder: Path) -> Picture | None:
    """Draw `training.png` into `folder`; None where no row has anything to draw.

    A row counts for its `agent`, or else for its `stage`, and needs a `step`; null leaves a gap. Agents that
    differ only in their number (critic-0, critic-1) share a column. `validation` is drawn as dots beside
    accuracy. Raises ConfigError (no matplotlib), RunError (cannot write).
    """
    curves = _curves(rows)
    panels = [name for name in _PANELS if any(name in of_agent for of_agent in curves.values())]
    if not panels:
        return None
    columns = _columns([agent for agent, of_agent in curves.items() if of_agent.keys() & _PANELS.keys()])
    figure_class = _figure_class()
    figure = figure_class(figsize=(1 + 3.8 * len(columns), 0.5 + 1.9 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(columns), sharey="row", sharex="col", squeeze=False)
    for axes_row, panel in zip(grid, panels, strict=True):
        axes_row[0].set_ylabel(_PANELS[panel])
        for axes, agents in zip(axes_row, columns.values(), strict=True):
            for number, agent in enumerate(agents):
                _draw(axes, curves[agent], panel, label=agent, colour=_COLOURS[number % len(_COLOURS)])
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25)
    for axes, name in zip(grid[0], columns, strict=True):
        axes.set_title(name)
        axes.legend(frameon=False, fontsize="small")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    image = BytesIO()
    figure.savefig(image, format="png", dpi=130)
    write_atomic(folder / FILE, image.getvalue())
    drawn = f"bold: mean of the last {_WINDOW} steps; dots: accuracy on the validation part"
    return Picture(f"Reward, accuracy and KL of each agent over its steps; {drawn}", FILE)


def _draw(axes: "Axes", of_agent: Mapping[str, _Curve], panel: str, *, label: str, colour: str) -> None:
    curve = of_agent.get(panel, [])
    steps = [step for step, _ in curve]
    values = [value for _, value in curve]
    axes.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8)
    axes.plot(steps, _trailing_mean(values), color=colour, linewidth=1.8, label=label)
    if panel == "accuracy" and "validation" in of_agent:
        axes.plot(*zip(*of_agent["validation"], strict=True), "o", color=colour, markeredgecolor="white")


def _curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, _Curve]]:
    """Agent -> metric -> (step, value) in the order of the rows."""
    curves: dict[str, dict[str, _Curve]] = {}
    for row in rows:
        of_agent = curves.setdefault(str(row.get("agent", row["stage"])), {})
        for name in (*_PANELS, "validation"):
            if name in row:
                value = row[name]
                of_agent.setdefault(name, []).append((row["step"], nan if value is None else float(value)))
    return curves


def _columns(agents: Sequence[str]) -> dict[str, list[str]]:
    """Agents by their name without its number."""
    columns: dict[str, list[str]] = {}
    for agent in agents:
        columns.setdefault(agent.rstrip("0123456789").rstrip("-_") or agent, []).append(agent)
    return columns


def _trailing_mean(values: Sequence[float]) -> list[float]:
    """Mean of the last steps that have a value; NaN where none has."""
    means = []
    for end in range(1, len(values) + 1):
        known = [value for value in values[max(0, end - _WINDOW) : end] if np.isfinite(value)]
        means.append(sum(known) / len(known) if known else nan)
    return means


def _figure_class() -> Any:
    """matplotlib's Figure: without pyplot it needs no display and keeps no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "plots: matplotlib is not installed; the pictures of a report need it. "
            "Install the extra: pip install 'seminar[plot]'."
        ) from error
    return Figure

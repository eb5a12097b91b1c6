"""Labelled numbers -> a table; what devices can do. Shared by the plans of all methods."""

from dataclasses import dataclass
from typing import NamedTuple

from seminar import build
from seminar.settings import Common, Generated, Named
from seminar.tasks import named


class Device(NamedTuple):
    """What a device can do at its best; makers' figures unless said otherwise."""

    memory_gb: float
    flops: float
    """Dense bf16 multiply-adds x 2 a second."""


DEVICES = {
    "h200": Device(141, 989e12),
    "h100": Device(80, 989e12),
    "a100": Device(80, 312e12),
    "4090": Device(24, 165e12),
    "cpu": Device(24, 0.4e12),  # two server cores, measured: docs/performance of the benchmark's floor
}

OPTIMIZER_BYTES = 16
"""float32 weight, gradient and two moments of every trainable parameter of the agent that is training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Labelled numbers in the order in which a person reads them."""

    title: str
    rows: tuple[tuple[str, str], ...]

    def markdown(self) -> str:
        """The plan as a table."""
        width = max(len(label) for label, _ in self.rows)
        lines = [f"| {label:<{width}} | {value} |" for label, value in self.rows]
        return "\n".join(
            [f"# Plan of {self.title}", "", f"| {'what':<{width}} | value |", "|---|---|", *lines, ""]
        )

    def summary(self) -> str:
        """The same as plain lines."""
        width = max(len(label) for label, _ in self.rows)
        return "\n".join(f"{label:<{width}}  {value}" for label, value in self.rows)


def count_tasks(config: Common) -> int:
    """Training tasks before the validation part is taken off."""
    source = config.data.train
    if isinstance(source, Generated):
        return source.count
    if isinstance(source, Named) and source.path is None:
        sizes = named.entry(source.name).sizes
        return sizes[source.split] if source.split in sizes else next(iter(sizes.values()))
    return len(build.tasks(source, seed=config.seed, split="train").tasks)

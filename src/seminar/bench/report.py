"""What the bench measured -> lines for a person."""

import os
import platform
import statistics
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch


def machine() -> dict[str, Any]:
    """Where this runs and with which versions."""
    packages = [name for name in ("torch", "transformers", "peft", "trl") if find_spec(name)]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "load": os.getloadavg()[0],
        "versions": {name: metadata.version(name) for name in packages},
    }


def heading(facts: Mapping[str, Any], *, model: str, dtype: str, device: str) -> str:
    """The machine and what all scenarios share."""
    where = facts["gpu"] if device != "cpu" else f"{facts['cores']} cores of {facts['processor']}"
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{where}, {facts['threads']} threads, load {facts['load']:.1f} at the start\n{versions}\n"
        f"{model}, {dtype}, LoRA r 16 on seven projections"
    )


def lines(title: str, result: Mapping[str, Any]) -> str:
    """One scenario: a row a side, ratios pair by pair, phases of every side, the floor."""
    rows = [
        f"\n{title}",
        f"  {'side':13} {'median s':>8}  {'tokens/s':>8}  {'peak GiB':>8}  runs, s",
    ]
    for name, side in result["sides"].items():
        peak = side.get("gpu_peak_bytes", side["peak_bytes"]) / 2**30
        runs = " ".join(f"{seconds:.2f}" for seconds in side["seconds"])
        rows.append(f"  {name:13} {side['median_s']:8.2f}  {side['tokens_s']:8,.0f}  {peak:8.2f}  {runs}")
    for name, ratios in result["ratios"].items():
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        rows.append(f"  {name} / seminar: median {statistics.median(ratios):.2f}, pair by pair {shown}")
    for name, side in result["sides"].items():
        rows += [
            f"  {name} {phase}: {part['seconds']:.2f} s, {part['tokens_s']:,.0f} tokens/s"
            for phase, part in side["phases"].items()
        ]
    rates, least = result["rates"], result["floor"]
    parts = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in least["phases_s"].items())
    rows.append(
        f"  floor: {least['seconds']:.2f} s ({parts}) at {rates['flops_s'] / 1e9:,.0f} GFLOP/s and "
        f"{rates['bytes_s'] / 1e9:,.0f} GB/s; seminar takes {result['times_the_floor']:.2f} times that"
    )
    return "\n".join(rows)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

"""A workload and its sides -> a process a side, one run of each in turn, A B A B ..., and what they took."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Self

import torch
from transformers import AutoTokenizer

from seminar.bench import scenarios
from seminar.bench.floor import Rates, Sizes, floor, measure_rates, sizes
from seminar.bench.scenarios import Job, Scenario, make_prompts
from seminar.errors import ConfigError, RunError

OURS = "seminar"
TRL = "1.16.0"
"""The version the peer's settings were written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Who runs a workload, and how its process is started."""

    name: str
    command: tuple[str, ...]


def sides(scenario: Scenario, *, trl: bool, vllm_python: str | None) -> list[Side]:
    """Ours first, then the peers that know this kind of workload."""
    found = [_module(OURS, "ours")]
    if trl and ((scenario.kind == "step" and scenario.agents == 1) or scenario.kind == "score"):
        found.append(_module("trl", "peer_trl"))
    if scenario.kind == "sample":
        found.append(_module("transformers", "peer_transformers"))
        if vllm_python is not None:
            script = str(Path(__file__).with_name("peer_vllm.py"))
            found.append(Side(name="vllm", command=(vllm_python, script)))
    return found


def check_trl() -> None:
    """Raise ConfigError where TRL is not installed in the version this bench was written for."""
    version = metadata.version("trl") if find_spec("trl") else "none"
    if version != TRL:
        raise ConfigError(
            f"--against trl: the installed TRL is {version}; this bench is written for {TRL}. "
            "Run: pip install 'seminar[bench]'."
        )


def compare(
    scenario: Scenario,
    *,
    model: str,
    dtype: str,
    device: str,
    pairs: int,
    sides: Sequence[Side],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run a workload `pairs` times on every side; facts of each side, ratios pair by pair, the floor."""
    encode = AutoTokenizer.from_pretrained(model)
    prompts = make_prompts(
        lambda text: encode(text)["input_ids"], count=scenario.prompts, tokens=scenario.prompt_tokens
    )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        job = Job(
            scenario=scenario,
            model=model,
            dtype=dtype,
            device=device,
            prompts=prompts,
            adapter=str(Path(folder) / "adapter"),
        )
        children = []
        for side in sides:  # one after another, so that no warm-up disturbs another
            progress(f"{scenario.name}: {side.name} warms up")
            children.append(stack.enter_context(Child(side, job, log=Path(folder) / f"{side.name}.log")))
        runs: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
        rates = []
        for number in range(pairs):
            rates.append(measure_rates(dtype=getattr(torch, dtype), device=torch.device(device)))
            for child in children:
                run = child.run()
                runs[child.side.name].append(run)
                progress(f"{scenario.name} {number + 1}/{pairs}: {child.side.name} {run['seconds']:.2f} s")
    return {
        "scenario": job.row()["scenario"],
        **result(scenario, runs, rates=rates, size=sizes(model, rank=scenarios.RANK), dtype=dtype),
    }


def result(
    scenario: Scenario,
    runs: Mapping[str, Sequence[dict[str, Any]]],
    *,
    rates: Sequence[Rates],
    size: Sizes,
    dtype: str,
) -> dict[str, Any]:
    """What the runs say together; the floor is that of the median rates measured between them."""
    ours = runs[OURS]
    middle = Rates(*(statistics.median(values) for values in zip(*rates, strict=True)))
    parts = floor(scenario, size, middle, bytes_each=getattr(torch, dtype).itemsize)
    floor_s = sum(parts.values())
    facts = {name: _facts(scenario, rows) for name, rows in runs.items()}
    return {
        "sides": facts,
        "ratios": {
            name: [theirs["seconds"] / mine["seconds"] for theirs, mine in zip(rows, ours, strict=True)]
            for name, rows in runs.items()
            if name != OURS
        },
        "rates": middle._asdict(),
        "floor": {"phases_s": parts, "seconds": floor_s},
        "times_the_floor": facts[OURS]["median_s"] / floor_s,
    }


class Child:
    """One side's process, warmed up. A context manager."""

    def __init__(self, side: Side, job: Job, *, log: Path) -> None:
        """Start it and wait until it is ready."""
        self.side = side
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                side.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._say(json.dumps(job.row()))
        self._read()

    def run(self) -> dict[str, Any]:
        """One run; what the child measured."""
        self._say("run")
        return self._read()

    def __enter__(self) -> Self:
        """Nothing to do: it runs since it was made."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up and wait; a child that does not end by itself is ended."""
        self._pipe(self._process.stdin).close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe(self._process.stdout).close()

    def _say(self, line: str) -> None:
        try:
            pipe = self._pipe(self._process.stdin)
            pipe.write(line + "\n")
            pipe.flush()
        except BrokenPipeError:
            self._fail()

    def _read(self) -> dict[str, Any]:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            self._fail()
        row: dict[str, Any] = json.loads(line)
        return row

    def _fail(self) -> None:
        code = self._process.wait()
        tail = " | ".join(self._log.read_text(errors="replace").strip().splitlines()[-3:])
        raise RunError(
            f"bench: the side {self.side.name} ended with code {code} (-9: killed, mostly for memory): {tail}"
        )

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def _module(name: str, module: str) -> Side:
    return Side(name=name, command=(sys.executable, "-m", f"seminar.bench.{module}"))


def _facts(scenario: Scenario, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    median = statistics.median(run["seconds"] for run in runs)
    phases: dict[str, dict[str, float]] = {}
    for name in runs[0]["phases"]:
        seconds = statistics.median(run["phases"][name]["seconds"] for run in runs)
        tokens = runs[0]["phases"][name]["tokens"]
        phases[name] = {"seconds": seconds, "tokens": tokens, "tokens_s": tokens / max(seconds, 1e-9)}
    peaks = {key: max(run[key] for run in runs) for key in runs[0] if key.endswith("peak_bytes")}
    return {
        "seconds": [run["seconds"] for run in runs],
        "median_s": median,
        "tokens_s": scenario.written / median,
        "phases": phases,
        **peaks,
    }

"""The child's end of the bench: a job on standard input -> one JSON line a run on standard output.

Each side of each workload is a process of its own, so that its peak of memory is its own. The child says
`{"ready": true}` after its warm-up; on each line it reads it does one run and says what it measured.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from seminar.bench.scenarios import Job


class Pipe:
    """Speaks with the parent; whatever libraries print goes to standard error."""

    def __init__(self) -> None:
        """Take standard output away and read the job."""
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.job = Job.of(json.loads(sys.stdin.readline()))

    def ready(self) -> None:
        """Say that the warm-up is done."""
        self._say({"ready": True})

    def wait(self) -> bool:
        """Wait for the next run; False when there will be none."""
        return bool(sys.stdin.readline())

    def answer(self, clock: "Clock", *, seconds: float) -> None:
        """Say what a run took."""
        phases = {name: {"seconds": s, "tokens": clock.tokens[name]} for name, s in clock.seconds.items()}
        self._say({"seconds": seconds, "phases": phases, **memory(clock.device)})

    def serve(self, run: Callable[["Clock"], float]) -> None:
        """Warm `run` up, then do it at each word; it returns its seconds."""
        device = torch.device(self.job.device)
        run(Clock(device))
        self.ready()
        while self.wait():
            clock = Clock(device)
            self.answer(clock, seconds=run(clock))

    def _say(self, row: dict[str, Any]) -> None:
        print(json.dumps(row), file=self._out, flush=True)


class Clock:
    """Seconds and tokens by phase."""

    def __init__(self, device: torch.device) -> None:
        """All zero."""
        self.device = device
        self.seconds: dict[str, float] = {}
        self.tokens: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str, *, tokens: int = 0) -> Iterator[None]:
        """Add the block's time and `tokens` to phase `name`."""
        began = self.now()
        yield
        self.add(name, self.now() - began, tokens=tokens)

    def add(self, name: str, seconds: float, *, tokens: int = 0) -> None:
        """Add to a phase."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.tokens[name] = self.tokens.get(name, 0) + tokens

    def now(self) -> float:
        """Seconds, after all work given to the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def memory(device: torch.device) -> dict[str, int]:
    """Peak memory of this process so far, in bytes; children of a grader are not in it.

    The kernel's own high-water mark of the resident set; `ru_maxrss` also counts the parent before the child
    became a program of its own, and so serves only where there is no /proc.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) * 1024
        )
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if device.type == "cuda":
        return {"peak_bytes": peak, "gpu_peak_bytes": torch.cuda.max_memory_allocated(device)}
    return {"peak_bytes": peak}

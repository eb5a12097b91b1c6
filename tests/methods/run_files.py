"""A real `seminar train` process killed at random moments and resumed; the files of a run, free of clocks."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = [sys.executable, "-c", "from seminar.cli.main import main; main()", "train"]
DIFFERS = {"versions.json", ".lock", "timings.jsonl", "plan.md"}
"""Files in which two equal runs may differ: run id, process id, wall clock; the plan is the command's."""


def train_through_kills(recipe: Path, folder: Path, *, seed: int, least: int = 3, most: int = 5) -> None:
    """Train `recipe` into `folder`, killed `least` to `most` times, each time a few log rows further on."""
    rng = random.Random(seed)
    kills = 0
    while True:
        resume = ["--resume"] if (folder / "versions.json").exists() else []
        process = subprocess.Popen(
            [*COMMAND, str(recipe), "--out", str(folder), "--quiet", *resume],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        wanted = logged(folder) + rng.randint(1, 5)
        late = rng.random() * 0.3
        while process.poll() is None and (logged(folder) < wanted or kills >= most):
            time.sleep(0.02)
        time.sleep(late)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        error = process.communicate()[1].decode()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error
    assert kills >= least


def logged(folder: Path) -> int:
    """Rows in the logs and tables of a run."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run by its path, without ids and clocks."""
    return {
        str(p.relative_to(folder)): _without_clock(p)
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in DIFFERS
    }


def _without_clock(path: Path) -> bytes:
    """The bytes of a file; a checkpoint's facts without the position in the log of wall-clock times."""
    if path.name != "state.json":
        return path.read_bytes()
    facts = json.loads(path.read_text())
    facts["positions"].pop("timings")
    return json.dumps(facts).encode()

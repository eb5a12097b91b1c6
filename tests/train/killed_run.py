"""A run killed at chosen or random moments and resumed; exits 0 where its files equal an undisturbed run's.

Started as a process of its own by test_kill.py. Each killed run is a forked child: torch is imported once.
Usage: killed_run.py every FOLDER | random FOLDER
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from seminar.atomic import atomic_dir
from seminar.runlog import RunFolder
from seminar.train import checkpoint

STEPS, CHUNKS = 5, 3
_EVENTS = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "fcntl.flock"})


def play(path: Path, *, tell: Callable[[], object] = lambda: None, size: int = 3) -> None:
    """A run of two stages in miniature: training with checkpoints and an adapter at its end, then a table."""
    with RunFolder.open(path, write=True) if path.exists() else _create(path) as run:
        if not run.stage_done("learn"):
            _learn(run, tell=tell, size=size)
        if not run.stage_done("debates"):
            with run.table("debate_set") as table:
                for chunk in range(table.num_chunks, CHUNKS):
                    table.append([{"chunk": chunk, "row": row} for row in range(chunk)])
                    tell()
            run.mark_done("debates", {"rows": CHUNKS})


def _create(path: Path) -> RunFolder:
    return RunFolder.create(path, config={"steps": STEPS}, facts={})


def _learn(run: RunFolder, *, tell: Callable[[], object], size: int) -> None:
    weights = {"g": {"w": torch.linspace(0, 1, size)}}
    state = checkpoint.resume(run, stage="learn", expect=weights)
    if state is not None:
        weights = state.adapters
    for step in range(state.step if state else 0, STEPS):
        weights["g"]["w"] = torch.sin(weights["g"]["w"] + step)
        run.log_metrics({"stage": "learn", "step": step, "reward": float(weights["g"]["w"].sum())})
        run.log_episodes([{"stage": "learn", "step": step, "text": f"{n} ü"} for n in range(2)])
        if step % 2:
            now = checkpoint.TrainState(
                step=step + 1, adapters=weights, optimizer={}, extra_tensors={}, facts={}
            )
            checkpoint.save(run, stage="learn", state=now)
        tell()
    with atomic_dir(run.adapter("g")) as folder:
        save_file(weights["g"], folder / "adapter_model.safetensors")
    run.mark_done("learn", {"steps": STEPS})


def die_at(number: int) -> None:
    """Count what touches the disk from now on; at event `number` die, half-way through it if it writes."""
    count, write = 0, os.write

    def due() -> bool:
        nonlocal count
        count += 1
        return count == number

    def heard(event: str, _: object) -> None:
        if event in _EVENTS and due():
            os.kill(os.getpid(), signal.SIGKILL)

    def write_half(handle: int, data: memoryview) -> int:
        if due():
            write(handle, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(handle, data)

    def fsync(_: int) -> None:
        if due():
            os.kill(os.getpid(), signal.SIGKILL)

    os.write, os.fsync = write_half, fsync
    sys.addaudithook(heard)


def forked(work: Callable[[], None]) -> int:
    """Exit code of a child that does `work`; minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(path: Path) -> dict[str, bytes]:
    """All files of a run but those that may differ."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in ("versions.json", ".lock", "timings.jsonl")
    }


def every(folder: Path) -> int:
    """Kill at the 1st, 2nd, 3rd ... event, each time in a fresh run, until a run outlives them all."""
    play(folder / "straight")
    expected = files(folder / "straight")
    for number in range(1, 10_000):
        path = folder / f"killed-{number}"

        def killed(number: int = number, path: Path = path) -> None:
            die_at(number)
            play(path)

        outcome = forked(killed)
        if outcome == 0:
            return number - 1
        assert outcome == -signal.SIGKILL, outcome
        assert forked(lambda path=path: play(path)) == 0, f"cannot go on after a kill at event {number}"
        found = files(path)
        assert found == expected, (number, sorted(found), sorted(expected))
    raise AssertionError("no run came to its end")


def at_random(folder: Path, *, rounds: int = 6, size: int = 200_000) -> int:
    """Kill from outside, a random while after a random step; resume, kill again, until the run ends."""
    play(folder / "straight", size=size)
    expected = files(folder / "straight")
    dice = random.Random(7)
    kills = 0
    for number in range(rounds):
        path = folder / f"killed-{number}"
        while True:
            steps, spin = dice.randrange(1, 4), dice.randrange(60_000)
            outcome = _killed_from_outside(path, steps=steps, spin=spin, size=size)
            if outcome == 0:
                break
            assert outcome == -signal.SIGKILL, outcome
            kills += 1
        assert files(path) == expected, number
    return kills


def _killed_from_outside(path: Path, *, steps: int, spin: int, size: int) -> int:
    """Exit code of a run killed `spin` turns of an empty loop after it told of `steps` more steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            play(path, tell=lambda: os.write(writing, b"."), size=size)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    told = 0
    while told < steps and os.read(reading, 1):
        told += 1
    for _ in range(spin):
        pass
    if told == steps:
        os.kill(child, signal.SIGKILL)
    outcome = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reading)
    return outcome


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # kill -9 takes nothing from the kernel; most of this test's time is saved
    mode = {"every": every, "random": at_random}[sys.argv[1]]
    sys.stdout.write(f"{mode(Path(sys.argv[2]))} kills\n")

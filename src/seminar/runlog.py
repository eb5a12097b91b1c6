"""A config in, a run folder out: logs, stage markers, tables, places of checkpoints and adapters."""

import fcntl
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from seminar.atomic import atomic_dir, remove_dir, sweep, write_atomic, writing
from seminar.errors import RunError, SeminarError
from seminar.jsonl import JsonLines, Row, RowFile
from seminar.manifest import (
    config_difference,
    current_versions,
    read_config,
    read_json,
    read_versions,
    to_json,
    write_manifest,
)
from seminar.trackers import Tracker, open_trackers

_LOGS = ("metrics", "episodes", "timings")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Positions = Mapping[str, int]
"""Bytes that each log held at one moment: what `rewind` goes back to."""


class RunFolder:
    """One run on disk.

    config.yaml · versions.json (versions, platform, seeds) · metrics.jsonl · episodes.jsonl · timings.jsonl
    (wall-clock, the one log in which two equal runs may differ) · stages/NAME.json (done markers) ·
    checkpoints/STAGE/ · adapters/NAME/ (PEFT format) · tables NAME.jsonl · texts (plan, report.md).
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.versions = read_versions(path)
        self.config = read_config(path)
        self.leftovers_removed = 0
        self._trackers: list[Tracker] = []
        self._logs: dict[str, JsonLines] = {}
        self._lock = -1
        self._new = False
        if write:
            self._lock = _lock(path)
            try:
                self.leftovers_removed = sweep(path)
                self._logs = {name: JsonLines(path / f"{name}.jsonl") for name in _LOGS}
            except BaseException:
                self.close()
                raise

    @classmethod
    def create(cls, path: Path, *, config: Mapping[str, Any], facts: Mapping[str, Any]) -> Self:
        """Start a run folder and open it for writing; `facts` (seeds, threads, device) join versions.json.

        The folder appears with its settings or not at all. Raises RunError where `path` is in use.
        """
        with writing(path):
            in_use = path.is_dir() and any(path.iterdir())
        if in_use:
            raise RunError(
                f"{path} is not empty; a new run needs a folder that is empty or absent. "
                "To go on with the run in it add --resume, to start anew choose another folder."
            )
        with atomic_dir(path) as folder:
            write_manifest(folder, config=config, facts=facts)
            for name in ("stages", "checkpoints", "adapters"):
                (folder / name).mkdir()
        run = cls(path, write=True)
        run._new = True
        return run

    @classmethod
    def open(cls, path: Path, *, write: bool) -> Self:
        """Open an existing run, to read it or (`write`) to go on with it.

        For writing it is locked against other processes and freed of what a killed one left unfinished.
        Raises RunError: not a run folder, another layout version, in use, not writable.
        """
        return cls(path, write=write)

    def adapter(self, name: str) -> Path:
        """Where the adapter of agent `name` lies, in PEFT's format."""
        return self.path / "adapters" / _checked(name)

    def checkpoints(self, stage: str) -> Path:
        """Folder of the checkpoints of a stage."""
        return self.path / "checkpoints" / _checked(stage)

    def table(self, name: str) -> RowFile:
        """The resumable table NAME.jsonl, open for appending. Raises RunError."""
        return RowFile(self.path / f"{_checked(name)}.jsonl")

    def write(self, name: str, text: str) -> None:
        """Write a text file of the run (plan, report.md), whole or not at all. Raises RunError."""
        write_atomic(self.path / _checked(name), text.encode())

    def log_metrics(self, row: Row) -> None:
        """Add a row (`stage`, `step`, numbers; no wall-clock) to metrics.jsonl and to the trackers."""
        log = self._log("metrics")
        log.append([_with_stage(row)])
        for tracker in self._trackers:
            with writing(self.path):
                tracker.log(row, index=log.num_rows - 1)

    def log_episodes(self, rows: Iterable[Row]) -> None:
        """Add rows (`stage`, `step`, what was played; dataclasses will do) to episodes.jsonl, all or none."""
        self._log("episodes").append([_with_stage(row) for row in rows])

    def log_timings(self, row: Row) -> None:
        """Add a row (`stage`, `step`, seconds, tokens a second) to timings.jsonl."""
        self._log("timings").append([_with_stage(row)])

    def track(self, names: Sequence[str]) -> None:
        """Show all further metrics to these trackers too. Raises ConfigError: an unknown or missing one."""
        run_id = self.versions["id"]
        self._trackers += open_trackers(names, folder=self.path, run_id=run_id, config=self.config)

    def positions(self) -> Positions:
        """Bytes in each log at this moment, made durable: what a checkpoint stores for `rewind`."""
        for log in self._logs.values():
            log.sync()
        return {name: log.size for name, log in self._logs.items()}

    def rewind(self, stage: str, positions: Positions | None = None) -> None:
        """Cut the logs back to `positions`, or (None) to where `stage` began: what follows is played again.

        Raises RunError where rows of another stage would be lost.
        """
        for name in self._logs:
            log = self._log(name)
            size = positions[name] if positions is not None else _start_of(stage, log)
            others = sorted({row["stage"] for _, row in log.rows_from(size)} - {stage})
            if others:
                raise RunError(
                    f"{log.path} holds rows of stage {', '.join(others)} behind those of stage {stage}; only "
                    "the last stage of a run can be played again. Start a new run folder."
                )
            log.cut(size)

    def progress(self) -> str:
        """In one line, what a resumed run finds: its finished stages, and the one under way."""
        markers = sorted((self.path / "stages").glob("*.json"), key=lambda m: m.stat().st_mtime_ns)
        done = [marker.stem for marker in markers]
        under_way = [
            f"{folder.parent.name} goes on after step {int(folder.name.removeprefix('step-'))}"
            for folder in sorted(self.path.glob("checkpoints/*/step-*"))
            if folder.parent.name not in done
        ]
        return "; ".join([f"finished stages: {', '.join(done) or 'none'}", *under_way[-1:]])

    def stage_done(self, stage: str) -> bool:
        """Whether a stage is finished."""
        return self._marker(stage).exists()

    def mark_done(self, stage: str, facts: Mapping[str, Any]) -> None:
        """Record that a stage is finished, with its facts (best step, accuracy). Raises RunError."""
        self.positions()
        write_atomic(self._marker(stage), to_json(facts))

    def stage_facts(self, stage: str) -> dict[str, Any]:
        """The facts of a finished stage. Raises RunError where it is not finished."""
        if not self.stage_done(stage):
            raise RunError(
                f"{self.path} has not finished stage {stage}; {self.progress()}. "
                "Go on with: seminar train ... --resume"
            )
        return read_json(self._marker(stage))

    def require_config(self, config: Mapping[str, Any]) -> None:
        """Refuse to go on under another config. Raises RunError that names the first field that differs."""
        if difference := config_difference(self.config, config):
            field, then, now = difference
            raise RunError(
                f"{self.path}: {field} was {then!r} when the run began and is {now!r} now; a run goes on "
                "under the config it began with. Give the old value, or start a new run folder."
            )

    def changed_versions(self) -> dict[str, tuple[str | None, str | None]]:
        """Packages and platform that differ from those the run began with: name -> (then, now)."""
        then = self.versions
        return {
            name: (then.get(name), now) for name, now in current_versions().items() if then.get(name) != now
        }

    def close(self) -> None:
        """Close logs and trackers and unlock the folder."""
        for tracker in self._trackers:
            with writing(self.path):
                tracker.close()
        for log in self._logs.values():
            log.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._trackers, self._logs, self._lock = [], {}, -1

    def __enter__(self) -> Self:
        """Nothing to do: the folder is open from the start."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close; a new run that an error of ours ended before it wrote a row leaves nothing."""
        begun = any(log.stat().st_size for log in self.path.glob("*.jsonl"))
        self.close()
        if self._new and isinstance(error, SeminarError) and not begun:
            remove_dir(self.path)

    def _log(self, name: str) -> JsonLines:
        assert name in self._logs, f"{self.path} is not open for writing"
        return self._logs[name]

    def _marker(self, stage: str) -> Path:
        return self.path / "stages" / f"{_checked(stage)}.json"


def _with_stage(row: Row) -> Row:
    assert {"stage", "step"} <= row.keys(), f"a log row needs stage and step; this one has {sorted(row)}"
    return row


def _start_of(stage: str, log: JsonLines) -> int:
    return next((offset for offset, row in log.rows_from(0) if row["stage"] == stage), log.size)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RunError(
            f"name {name!r} cannot name a file of a run folder; allowed are letters, digits, '.', '_', '-', "
            "the first a letter or digit. Rename the agent or stage."
        )
    return name


def _lock(path: Path) -> int:
    """Hold the folder for this process; the kernel gives the lock back however the process ends."""
    with writing(path / ".lock"):
        handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            raise RunError(
                f"{path} is in use by process {holder or 'unknown'}; one process at a time may write a run. "
                "Wait until it ends, or stop it."
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
    return handle

"""Trackers, read back with their own readers or from their own files."""

import json
import os
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from seminar.errors import ConfigError
from seminar.runlog import RunFolder

ROWS = [
    {"stage": "generator-0", "step": 0, "reward": 0.25, "note": "text is no point", "flag": True},
    {"stage": "generator-0", "step": 1, "reward": 0.5},
    {"stage": "critic-0", "step": 0, "reward": -1.0},
]


def track(path: Path, tracker: str, *, kill_and_resume: bool = False) -> None:
    with RunFolder.create(path, config={"lr": 1e-3}, facts={}) as run:
        run.track([tracker])
        for row in ROWS:
            run.log_metrics(row)
        positions = run.positions()
        if kill_and_resume:
            run.log_metrics({"stage": "critic-0", "step": 1, "reward": 7.0})
    if kill_and_resume:
        with RunFolder.open(path, write=True) as run:
            run.rewind("critic-0", positions)
            run.track([tracker])
            run.log_metrics({"stage": "critic-0", "step": 1, "reward": 7.0})


def test_an_unknown_tracker_names_those_there_are(tmp_path: Path) -> None:
    with (
        RunFolder.create(tmp_path / "run", config={}, facts={}) as run,
        pytest.raises(
            ConfigError, match="'mlflow' is not a tracker; allowed are tensorboard, wandb, trackio"
        ),
    ):
        run.track(["mlflow"])


def test_a_missing_library_names_the_extra_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with (
        RunFolder.create(tmp_path / "run", config={}, facts={}) as run,
        pytest.raises(ConfigError, match=r"extra `track`.*pip install 'seminar\[track\]'"),
    ):
        run.track(["wandb"])


def test_tensorboard_reads_back_each_point_once_though_a_step_was_played_twice(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    track(tmp_path / "run", "tensorboard", kill_and_resume=True)
    points = {}
    for stage in ("generator-0", "critic-0"):
        events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard" / stage))
        events.Reload()
        assert events.Tags()["scalars"] == ["reward"]
        points[stage] = [(event.step, event.value) for event in events.Scalars("reward")]
    assert points == {"generator-0": [(0, 0.25), (1, 0.5)], "critic-0": [(0, -1.0), (1, 7.0)]}


def test_wandb_offline_holds_every_row_under_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CONSOLE", "off")
    track(tmp_path / "run", "wandb")
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    history = []
    for data in _leveldb_records(file.read_bytes()[7:]):  # 7 bytes of W&B's own header
        record = Record.FromString(data)
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
            history.append(
                (record.history.step.num, {k: v for k, v in items.items() if not k.startswith("_")})
            )
    assert history == [
        (0, {"generator-0/reward": "0.25"}),
        (1, {"generator-0/reward": "0.5"}),
        (2, {"critic-0/reward": "-1"}),
    ]


def test_trackio_holds_every_row_under_its_stage(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    code = "import test_trackers, pathlib, sys; test_trackers.track(pathlib.Path(sys.argv[1]), 'trackio')"
    surroundings = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    subprocess.run(command, env=surroundings, cwd=Path(__file__).parent, check=True, capture_output=True)
    with sqlite3.connect(tmp_path / "trackio" / "seminar.db") as database:
        rows = database.execute("select step, metrics from metrics order by id").fetchall()
    assert [(step, json.loads(metrics)) for step, metrics in rows] == [
        (0, {"generator-0/reward": 0.25}),
        (1, {"generator-0/reward": 0.5}),
        (2, {"critic-0/reward": -1.0}),
    ]


def _leveldb_records(data: bytes) -> list[bytes]:
    """Records of a log of one 32 KiB block: checksum (4), length (2), type (1), payload."""
    records, at = [], 0
    while at + 7 <= len(data):
        length, kind = struct.unpack_from("<HB", data, at + 4)
        if not kind:
            break
        assert kind == 1, "the run is larger than this reader is made for"
        records.append(data[at + 7 : at + 7 + length])
        at += 7 + length
    return records

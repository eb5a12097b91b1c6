"""The run folder: created whole, opened safely, rewound exactly."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from seminar.errors import RunError
from seminar.jsonl import read_rows
from seminar.runlog import RunFolder

CONFIG = {"seed": 3, "lora": {"rank": 16, "targets": ("q_proj", "v_proj")}, "name": "Ünï"}


def new(path: Path) -> RunFolder:
    return RunFolder.create(path, config=CONFIG, facts={"seed": 3})


def play(run: RunFolder, stage: str, steps: range) -> None:
    for step in steps:
        run.log_metrics({"stage": stage, "step": step, "reward": step / 7})
        run.log_episodes([{"stage": stage, "step": step, "text": f"{stage} {step} {n}"} for n in range(2)])
        run.log_timings({"stage": stage, "step": step, "sample_s": 0.5})


def logs(run: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.glob("*.jsonl")}


def in_child(work: Callable[[], None]) -> int:
    """Exit code of a forked child that does `work`; 3 for a RunError."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except RunError:
            os._exit(3)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_new_run_records_its_config_versions_and_seeds(tmp_path: Path) -> None:
    with new(tmp_path / "run"):
        config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
        versions = json.loads((tmp_path / "run" / "versions.json").read_text())
    assert config == {"seed": 3, "lora": {"rank": 16, "targets": ["q_proj", "v_proj"]}, "name": "Ünï"}
    assert versions["torch"] == version("torch")
    assert versions["peft"] == version("peft")
    assert versions["python"] == sys.version.split()[0]
    assert (versions["seed"], versions["run_folder"]) == (3, 1)


def test_a_new_run_may_take_an_empty_folder_but_none_in_use(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    new(tmp_path / "run").close()
    with pytest.raises(RunError, match=r"run is not empty.*add --resume"):
        new(tmp_path / "run")


def test_a_config_that_cannot_be_written_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(yaml.YAMLError):
        RunFolder.create(tmp_path / "run", config={"a": object()}, facts={})
    assert list(tmp_path.iterdir()) == []


def test_a_run_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="a part of that path is a file"):
        new(tmp_path / "file" / "run")


@pytest.mark.parametrize(
    "make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("")]
)
def test_what_is_no_run_folder_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "run")
    with pytest.raises(RunError, match="run is not a run folder"):
        RunFolder.open(tmp_path / "run", write=True)


def test_a_run_folder_of_another_version_is_refused_with_who_made_it(tmp_path: Path) -> None:
    new(tmp_path / "run").close()
    (tmp_path / "run" / "versions.json").write_text('{"run_folder": 2, "seminar": "9.9"}')
    with pytest.raises(RunError, match=r"of version 2; this seminar reads version 1.*\(9\.9\)"):
        RunFolder.open(tmp_path / "run", write=False)


def test_a_broken_config_is_one_line(tmp_path: Path) -> None:
    new(tmp_path / "run").close()
    (tmp_path / "run" / "config.yaml").write_text("a: [1\nb: 2")
    with pytest.raises(RunError, match=r"config.yaml cannot be read") as caught:
        RunFolder.open(tmp_path / "run", write=False)
    assert "\n" not in str(caught.value)


def test_one_process_at_a_time_writes_and_any_may_read(tmp_path: Path) -> None:
    with new(tmp_path / "run"):
        with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
            RunFolder.open(tmp_path / "run", write=True)
        assert RunFolder.open(tmp_path / "run", write=False).config["seed"] == 3
    RunFolder.open(tmp_path / "run", write=True).close()


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    new(tmp_path / "run").close()

    def die() -> None:
        RunFolder.open(tmp_path / "run", write=True)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    RunFolder.open(tmp_path / "run", write=True).close()


def test_a_run_of_another_user_is_refused_in_one_line(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    new(tmp_path / "run").close()

    def as_nobody() -> None:
        os.setuid(65534)
        RunFolder.open(tmp_path / "run", write=True)

    assert in_child(as_nobody) == 3


def test_a_run_that_may_be_read_but_not_written_opens_for_reading_only(tmp_path: Path) -> None:
    new(tmp_path / "run").close()
    mounted = subprocess.run(
        ["mount", "--bind", tmp_path / "run", tmp_path / "run"], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", tmp_path / "run"], check=True)
        assert RunFolder.open(tmp_path / "run", write=False).config["seed"] == 3
        with pytest.raises(RunError, match="mounted read-only"):
            RunFolder.open(tmp_path / "run", write=True)
    finally:
        subprocess.run(["umount", "-l", tmp_path / "run"], check=True)


def test_rewinding_to_positions_makes_the_replayed_logs_identical(tmp_path: Path) -> None:
    with new(tmp_path / "straight") as straight, new(tmp_path / "resumed") as resumed:
        play(straight, "generator-0", range(6))
        play(resumed, "generator-0", range(4))
        positions = resumed.positions()
        play(resumed, "generator-0", range(4, 5))
        resumed.rewind("generator-0", positions)
        play(resumed, "generator-0", range(4, 6))
        assert logs(resumed) == logs(straight)


def test_rewinding_without_positions_cuts_the_whole_stage_and_nothing_before_it(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        play(run, "warm-up", range(2))
        before = logs(run)
        play(run, "generator-0", range(3))
        run.rewind("generator-0")
        assert logs(run) == before
        run.rewind("generator-1")
        assert logs(run) == before


def test_rewinding_never_cuts_rows_of_a_later_stage(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        play(run, "generator-0", range(2))
        play(run, "generator-1", range(1))
        with pytest.raises(
            RunError, match="holds rows of stage generator-1 behind those of stage generator-0"
        ):
            run.rewind("generator-0")
        assert len(list(read_rows(run.path / "metrics.jsonl"))) == 3


def test_an_unfinished_last_line_and_leftovers_are_gone_after_opening(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        play(run, "s", range(2))
        whole = logs(run)
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"stage": "s", "st')
    (tmp_path / "run" / "checkpoints" / ".tmp-step-1").mkdir()
    with RunFolder.open(tmp_path / "run", write=True) as run:
        assert run.leftovers_removed == 1
        assert logs(run) == whole
        assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_a_stage_is_done_once_marked_and_keeps_its_facts_exactly(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        assert not run.stage_done("generator-0")
        run.mark_done("generator-0", {"best": {"step": 4, "accuracy": 0.1 + 0.2}})
    run = RunFolder.open(tmp_path / "run", write=False)
    assert run.stage_done("generator-0")
    assert run.stage_facts("generator-0") == {"best": {"step": 4, "accuracy": 0.30000000000000004}}
    with pytest.raises(RunError, match="has not finished stage critic-0; finished stages: generator-0"):
        run.stage_facts("critic-0")


def test_going_on_under_another_config_names_the_field(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        run.require_config(CONFIG)
        with pytest.raises(RunError, match=r"lora\.rank was 16 when the run began and is 8 now"):
            run.require_config({**CONFIG, "lora": {"rank": 8, "targets": ("q_proj", "v_proj")}})
        with pytest.raises(RunError, match=r"beta was None when the run began and is 0\.1 now"):
            run.require_config({**CONFIG, "beta": 0.1})


def test_versions_that_changed_since_the_start_are_told(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        assert run.changed_versions() == {}
    versions = json.loads((tmp_path / "run" / "versions.json").read_text())
    (tmp_path / "run" / "versions.json").write_text(json.dumps({**versions, "peft": "0.1"}))
    run = RunFolder.open(tmp_path / "run", write=False)
    assert run.changed_versions() == {"peft": ("0.1", version("peft"))}


def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        for name in ("../x", "a/b", "", ".hidden"):
            with pytest.raises(RunError, match="cannot name a file of a run folder"):
                run.adapter(name)


def test_a_table_and_texts_lie_in_the_folder(tmp_path: Path) -> None:
    with new(tmp_path / "run") as run:
        with run.table("debate_set") as table:
            table.append([{"question": "2+2"}])
        run.write("report.md", "# Report\n")
    assert (tmp_path / "run" / "debate_set.jsonl").read_text() == '{"question": "2+2"}\n'
    assert (tmp_path / "run" / "report.md").read_text() == "# Report\n"


def test_the_run_folder_loads_no_torch() -> None:
    code = "import seminar.runlog, seminar.console, seminar.stopping, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

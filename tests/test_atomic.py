"""Files and folders that are whole or absent."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from seminar.atomic import atomic_dir, remove_dir, sweep, write_atomic
from seminar.errors import RunError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB, where this machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_written_file_holds_the_bytes_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert names(tmp_path) == ["a"]


def test_a_folder_appears_whole_with_its_parents(tmp_path: Path) -> None:
    with atomic_dir(tmp_path / "x" / "y") as folder:
        (folder / "f").write_text("1")
        assert not (tmp_path / "x" / "y").exists()
    assert names(tmp_path / "x") == ["y"]
    assert (tmp_path / "x" / "y" / "f").read_text() == "1"


def test_a_new_folder_replaces_the_old_one_and_nothing_of_it_stays(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with atomic_dir(tmp_path / "y") as folder:
            (folder / name).write_text(name)
    assert names(tmp_path) == ["y"]
    assert names(tmp_path / "y") == ["new"]


def test_an_error_within_leaves_the_old_folder_and_no_trace_of_the_new_one(tmp_path: Path) -> None:
    with atomic_dir(tmp_path / "y") as folder:
        (folder / "old").write_text("")
    with pytest.raises(KeyError), atomic_dir(tmp_path / "y") as folder:
        _fill_then_fail(folder)
    assert names(tmp_path) == ["y"]
    assert names(tmp_path / "y") == ["old"]


def _fill_then_fail(folder: Path) -> None:
    (folder / "new").write_text("")
    raise KeyError


def test_files_and_folders_get_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"")
        with atomic_dir(tmp_path / "b"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


def test_a_removed_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "f").write_text("")
    remove_dir(tmp_path / "y")
    assert names(tmp_path) == []


def test_sweep_removes_leftovers_at_every_depth_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "d" / ".tmp-c-1").mkdir(parents=True)
    (tmp_path / "d" / ".tmp-c-1" / "half").write_text("")
    (tmp_path / ".tmp-f-2").write_text("")
    (tmp_path / "d" / "kept").write_text("")
    assert sweep(tmp_path) == 2
    assert names(tmp_path) == ["d"]
    assert names(tmp_path / "d") == ["kept"]


def test_sweep_brings_back_a_folder_whose_successor_never_arrived(tmp_path: Path) -> None:
    (tmp_path / ".old-y").mkdir()
    (tmp_path / ".old-y" / "f").write_text("1")
    assert sweep(tmp_path) == 1
    assert (tmp_path / "y" / "f").read_text() == "1"


def test_sweep_drops_the_predecessor_of_a_folder_that_arrived(tmp_path: Path) -> None:
    for name in (".old-y", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of {name}").write_text("")
    sweep(tmp_path)
    assert names(tmp_path) == ["y"]
    assert names(tmp_path / "y") == ["of y"]


def test_a_path_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="a part of that path is a file") as caught:
        write_atomic(tmp_path / "file" / "x", b"")
    assert "\n" not in str(caught.value)


def test_a_full_disk_keeps_the_old_file_and_says_so(small_disk: Path) -> None:
    write_atomic(small_disk / "a", b"old")
    with pytest.raises(RunError, match="the disk is full"):
        write_atomic(small_disk / "a", bytes(1 << 20))
    assert (small_disk / "a").read_bytes() == b"old"
    assert names(small_disk) == ["a"]


def test_a_full_disk_met_by_safetensors_leaves_no_folder_and_says_so(small_disk: Path) -> None:
    with pytest.raises(RunError, match="the disk is full"), atomic_dir(small_disk / "y") as folder:
        save_file({"w": torch.zeros(1 << 20)}, folder / "w.safetensors")
    assert names(small_disk) == []


def test_a_read_only_disk_is_named(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(RunError, match="mounted read-only"):
        write_atomic(small_disk / "a", b"")

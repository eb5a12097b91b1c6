"""Bytes or a filled folder in, a file or folder that is whole or absent out, whatever kills the writer."""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from seminar.errors import RunError

_UNFINISHED = ".tmp-"
_REPLACED = ".old-"

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space on it",
    errno.EDQUOT: "the quota on this disk is used up; free some space on it",
    errno.EACCES: "writing is not permitted there; choose a folder that you may write to",
    errno.EPERM: "writing is not permitted there; choose a folder that you may write to",
    errno.EROFS: "the disk is mounted read-only; choose a folder that you may write to",
    errno.ENOTDIR: "a part of that path is a file; choose a path made of folders",
    errno.EEXIST: "a part of that path is a file; choose a path made of folders",
    errno.ENAMETOOLONG: "the name is longer than the file system takes; choose a shorter one",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError met while `path` is being written into a RunError of one line."""
    try:
        yield
    except OSError as error:
        raise _refusal(path, number=error.errno or 0, met=error.strerror or str(error)) from error
    except SafetensorError as error:  # wraps what the system refused in a text of its own
        if refused := re.search(r"os error (\d+)", str(error)):
            raise _refusal(path, number=int(refused[1]), met=os.strerror(int(refused[1]))) from error
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file: after a kill at any moment it holds the old bytes or the new ones. Raises RunError."""
    with writing(path):
        unfinished = _sibling(path)
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; on a clean exit it becomes `path`, on an error it vanishes.

    An older folder at `path` is replaced; a kill between its removal and the arrival of the new one is mended
    by `sweep`. Raises RunError.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _sibling(path)
        unfinished.mkdir()
        try:
            yield unfinished
            _sync_tree(unfinished)
            _put_in_place(unfinished, path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        sync_folder(path.parent)


def remove_dir(path: Path) -> None:
    """Remove a folder; a kill in the midst leaves no half of it under its own name. Raises RunError."""
    with writing(path):
        doomed = _sibling(path)
        path.rename(doomed)
        shutil.rmtree(doomed)


def sweep(folder: Path) -> int:
    """Remove what killed writers left under `folder` and return how many leftovers; for its only writer."""
    count = 0
    with writing(folder):
        for leftover in sorted(folder.rglob(f"{_REPLACED}*")):
            target = leftover.with_name(leftover.name.removeprefix(_REPLACED))
            if target.exists():
                shutil.rmtree(leftover)
            else:
                leftover.rename(target)
            count += 1
        for leftover in sorted(folder.rglob(f"{_UNFINISHED}*")):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)
            count += 1
    return count


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refusal(path: Path, *, number: int, met: str) -> RunError:
    advice = _ADVICE.get(number, "check that disk and path are sound")
    return RunError(
        f"{path} cannot be written ({met}): {advice}, then run the same command again, with --resume "
        "where a run had begun."
    )


def _sibling(path: Path) -> Path:
    return path.with_name(f"{_UNFINISHED}{path.name}-{uuid.uuid4().hex[:8]}")


def _put_in_place(new: Path, path: Path) -> None:
    """Rename onto `path`. POSIX replaces an empty folder in one step, a filled one needs a side step."""
    replaced = path.with_name(f"{_REPLACED}{path.name}")
    if path.is_dir() and any(path.iterdir()):
        shutil.rmtree(replaced, ignore_errors=True)
        path.rename(replaced)
    new.rename(path)
    shutil.rmtree(replaced, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for root, _, files in os.walk(folder):
        for name in files:
            with (Path(root) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))

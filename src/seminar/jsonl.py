"""Rows in, lines of append-only JSON files out, and back; nothing half-written survives an open."""

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from seminar.atomic import writing
from seminar.errors import RunError

Row = Mapping[str, Any]


def encode(row: Row) -> bytes:
    """One row as a line of strict JSON: dataclasses become objects, NaN null, infinities "inf" or "-inf"."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:  # a number JSON does not know; rare, so only then is the row walked through
        text = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"  # a lone surrogate becomes JSON's own \udXXX


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file in order; a last line still being written is left out. Raises RunError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield _decode(line, where=f"{path}, line {number}")
    except OSError as error:
        raise RunError(
            f"{path} cannot be read ({error.strerror}); give the path of a complete run folder."
        ) from error


class JsonLines:
    """A file of JSON lines open for appending; opening it cuts a last line left unfinished by a kill."""

    def __init__(self, path: Path) -> None:
        """Open or create. Raises RunError."""
        self.path = path
        with writing(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self.num_rows, self.size = _whole_lines(path)
            os.ftruncate(self._handle, self.size)

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows, all or (where the disk refuses) none. Raises RunError."""
        lines = [encode(row) for row in rows]
        data = memoryview(b"".join(lines))
        with writing(self.path):
            try:
                written = 0
                while written < len(data):
                    written += os.write(self._handle, data[written:])
            except OSError:
                os.ftruncate(self._handle, self.size)
                raise
        self.size += len(data)
        self.num_rows += len(lines)

    def cut(self, size: int) -> None:
        """Drop what lies behind `size` bytes, the end of a line. Raises RunError: the file is shorter."""
        if size > self.size:
            raise RunError(
                f"{self.path} has {self.size} bytes, but {size} were written: it was changed or damaged. "
                "Restore it, or start a new run folder."
            )
        if size < self.size:
            with writing(self.path):
                os.ftruncate(self._handle, size)
            self.num_rows, self.size = _whole_lines(self.path)

    def sync(self) -> None:
        """Make durable what was written so far."""
        with writing(self.path):
            os.fsync(self._handle)

    def rows_from(self, offset: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """(byte offset, row) of each line from the line that starts at `offset`."""
        with self.path.open("rb") as file:
            file.seek(offset)
            for line in file:
                yield offset, _decode(line, where=f"{self.path}, byte {offset}")
                offset += len(line)

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class RowFile:
    """A table that grows by whole chunks of rows: after a kill the complete chunks are there, nothing else.

    The rows stand in `path` as plain JSON lines. Beside it, `path` + `.chunks` records where each chunk ends,
    one line a chunk, written after its rows are safe. Chunks may differ in length, and may be empty.
    """

    def __init__(self, path: Path) -> None:
        """Open or create, and cut an unfinished chunk. Raises RunError."""
        self._rows = JsonLines(path)
        self._chunks = JsonLines(path.with_name(path.name + ".chunks"))
        ends = [row["end"] for row in read_rows(self._chunks.path)]
        self._rows.cut(ends[-1] if ends else 0)

    @property
    def num_chunks(self) -> int:
        """Chunks that are complete on disk."""
        return self._chunks.num_rows

    @property
    def num_rows(self) -> int:
        """Rows in the complete chunks."""
        return self._rows.num_rows

    def append(self, chunk: Sequence[Row]) -> None:
        """Add one chunk (it may be empty) and make it durable. Raises RunError."""
        self._rows.append(chunk)
        self._rows.sync()
        self._chunks.append([{"rows": len(chunk), "end": self._rows.size}])
        self._chunks.sync()

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order."""
        return read_rows(self._rows.path)

    def close(self) -> None:
        """Give both files back."""
        self._rows.close()
        self._chunks.close()

    def __enter__(self) -> Self:
        """Nothing to do: the table is open from the start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _whole_lines(path: Path) -> tuple[int, int]:
    """(number of whole lines, bytes up to the end of the last of them)."""
    count = end = start = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
            if b"\n" in block:
                end = start + block.rindex(b"\n") + 1
            start += len(block)
    return count, end


def _decode(line: bytes, *, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RunError(
            f"{where} is not JSON ({error}); restore the file, or start a new run folder."
        ) from error
    if not isinstance(row, dict):
        raise RunError(f"{where} is not a JSON object; restore the file, or start a new run folder.")
    return row


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"a log row holds a {type(value).__name__}; rows take numbers, texts, lists, mappings, dataclasses"
    )


def _finite(value: object) -> object:
    match value:
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case str() | int() | float() | None:
            return value
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return _finite(_plain(value))

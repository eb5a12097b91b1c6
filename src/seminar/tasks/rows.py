"""A hub id or a local JSONL, CSV or parquet file -> rows, each a dictionary that knows where it stands."""

import csv
import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from seminar.errors import DataError

SUFFIXES = (".jsonl", ".csv", ".parquet")


class Row(dict[str, Any]):
    """The columns of one row; asking for one that is absent is an error that names the nearest."""

    def __init__(self, columns: dict[str, Any], *, where: str) -> None:  # noqa: D107
        super().__init__(columns)
        self.where = where

    def __missing__(self, column: str) -> Any:  # noqa: D105
        near = get_close_matches(column, self, n=1, cutoff=0.0)
        hint = f"the nearest is `{near[0]}`; " if near else ""
        raise DataError(
            f"{self.where} has no column `{column}`; its columns are {', '.join(self)}. {hint.capitalize()}"
            "name the right column in the mapping, or rename it in the data."
        )


def is_file(source: str | Path) -> bool:
    """Whether a source names a local file (by its ending) and not a data set on the hub."""
    return Path(source).suffix.lower() in SUFFIXES


def read_rows(source: str | Path, *, config: str | None = None, split: str | None = None) -> list[Row]:
    """All rows of a local file, or of one split of a data set on the hub.

    Errors: DataError for a missing, unreadable or empty source. `config` and `split` are for the
    hub; a local file is one split.
    """
    if is_file(source):
        path = Path(source).expanduser()
        if not path.is_file():
            raise DataError(f"{path} is not a file here ({Path.cwd()}). Check the path of the data.")
        readers = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
        rows = list(readers[path.suffix.lower()](path))
    else:
        rows = _hub(str(source), config, split)
    if not rows:
        raise DataError(
            f"{source} holds no rows; at least one is needed. Check the file, or choose another split."
        )
    return rows


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path} line {number}"
            try:
                columns = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{where} is not JSON ({error}); each line is one JSON object.") from error
            if not isinstance(columns, dict):
                raise DataError(
                    f"{where} is a JSON {type(columns).__name__}; each line must be one JSON object."
                )
            yield Row(columns, where=where)


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        for columns in reader:
            where = f"{path} line {reader.line_num}"
            if None in columns or None in columns.values():
                raise DataError(
                    f"{where} has another number of cells than the header; quote cells that hold commas."
                )
            yield Row(columns, where=where)


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as arrow  # comes with `datasets`; loaded only where a parquet file is read
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet ({error}). Check how it was written.") from error
    for number, columns in enumerate(table.to_pylist()):
        yield Row(columns, where=f"{path} row {number}")


def _hub(hub_id: str, config: str | None, split: str | None) -> list[Row]:
    import datasets  # slow to load, and needed for hub ids only

    where = " ".join(part for part in (hub_id, config, split) if part)
    if split is None:
        raise DataError(
            f"{where}: no split is named; a data set on the hub has several. Add one, such as `train`."
        )
    try:
        table = datasets.load_dataset(hub_id, config, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"{where} could not be loaded from the hub ({type(error).__name__}: {error}). "
            f"Check id and connection, or give a local file ({', '.join(SUFFIXES)}) with the same columns."
        ) from error
    return [Row(columns, where=f"{where} row {number}") for number, columns in enumerate(table)]

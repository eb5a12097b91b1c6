"""A hub id or a local JSONL, CSV or parquet file -> rows, each a dictionary that knows where it stands."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from seminar.errors import ConfigError, DataError

SUFFIXES = (".jsonl", ".csv", ".parquet")


class Row(dict[str, Any]):
    """The columns of one row; asking for one that is absent is an error that names the nearest."""

    def __init__(self, columns: Mapping[str, Any], *, where: str, number: int) -> None:
        """`where` is the place for messages, `number` the 0-based position in the file or split."""
        super().__init__(columns)
        self.where = where
        self.number = number

    def __missing__(self, column: str) -> Any:  # noqa: D105
        near = get_close_matches(column, self, n=1, cutoff=0.0)
        raise DataError(
            f"{self.where} has no column `{column}`; its columns are {', '.join(self) or 'none'}. "
            f"Name the right one in the mapping, or rename it in the data; the nearest is `{''.join(near)}`."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where a published data set lives, and how large it is known to be."""

    hub: str
    config: str | None = None
    sizes: Mapping[str, int]
    """Split -> rows; the first split is the default."""
    split_of: Callable[[Row], str | None] | None = None
    """How a row of a local file with several splits tells its own; None where a file is one split."""

    def rows(self, path: str | Path | None, *, split: str | None = None) -> list[Row]:
        """The rows of a split: from a local file, however many there are, else from the hub, counted.

        Errors: DataError for bad data or a size that is not the known one, ConfigError for an unknown split.
        """
        chosen = split or next(iter(self.sizes))
        if chosen not in self.sizes:
            raise ConfigError(f"{self.hub} has no split `{chosen}`; choose one of {', '.join(self.sizes)}.")
        if path is not None:
            if self.split_of is None:
                return local_rows(path, split=split)
            return [row for row in local_rows(path) if self.split_of(row) in (chosen, None)]
        rows = read_rows(self.hub, config=self.config, split=chosen)
        if len(rows) != self.sizes[chosen]:
            raise DataError(
                f"{self.hub} {chosen} holds {len(rows)} rows, not {self.sizes[chosen]}: it has changed. "
                "To use it as it is, load the hub id as a set of your own."
            )
        return rows


def local_rows(path: str | Path, *, split: str | None = None) -> list[Row]:
    """The rows of a local file. It is one split: naming another is a ConfigError."""
    if not is_file(path):
        raise ConfigError(
            f"path is {path}; a file ending in {', '.join(SUFFIXES)} is needed. Convert it to one."
        )
    if split is not None:
        raise ConfigError(f"split is `{split}`, but {path} is one split. Leave out the split or the path.")
    return read_rows(path)


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
        try:
            rows = list(readers[path.suffix.lower()](path))
        except (UnicodeDecodeError, csv.Error, OSError) as error:
            raise DataError(
                f"{path} cannot be read ({error}). Check the file; text must be UTF-8."
            ) from error
    else:
        rows = _hub(str(source), config, split)
    if not rows:
        raise DataError(
            f"{source} holds no rows; at least one is needed. Check the file, or choose another split."
        )
    return rows


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as lines:
        filled = ((place, line) for place, line in enumerate(lines, start=1) if line.strip())
        for number, (place, line) in enumerate(filled):
            where = f"{path} line {place}"
            try:
                columns = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{where} is not JSON ({error}); each line is one JSON object.") from error
            if not isinstance(columns, dict):
                raise DataError(
                    f"{where} is a JSON {type(columns).__name__}; each line must be one JSON object."
                )
            yield Row(columns, where=where, number=number)


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        for number, columns in enumerate(reader):
            where = f"{path} line {reader.line_num}"
            if None in columns or None in columns.values():
                raise DataError(
                    f"{where} has another number of cells than the header; quote cells that hold commas."
                )
            yield Row(columns, where=where, number=number)


def _parquet(path: Path) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet  # comes with `datasets`, and is not loaded for other files

    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        raise DataError(f"{path} cannot be read as parquet ({error}). Check how it was written.") from error
    for number, columns in enumerate(table.to_pylist()):
        yield Row(columns, where=f"{path} row {number}", number=number)


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
    return [
        Row(columns, where=f"{where} row {number}", number=number) for number, columns in enumerate(table)
    ]

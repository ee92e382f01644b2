"""Where rows come from, whatever they are stored in: lines, each one JSON object, one in memory at a time.

data.jsonl, data.jsonl.gz    told apart by their first bytes, not by their names
data.parquet                 a row is a line; only the columns that are asked for are read
a folder                     of a data set: what ``datasets`` saved or can load
datasets:owner/name          from the hub, by ``datasets``
-                            standard input, kept in a temporary file, because it is read twice
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from keepset.files import as_path
from keepset.terminal import one_line
from keepset.text.jsonl import EXAMPLE, Fields, Line

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
"""How these files begin."""
HUB = "datasets:"
BATCH = 256
"""Rows of a Parquet file in memory at once."""

Stamp = tuple[int, int]
"""Size and time of change of a file."""


class Source(ABC):
    """Rows that can be read more than once, always the same."""

    seeks = True
    """Whether beginning in the middle is cheaper than reading up to there."""

    def __init__(self, name: str, path: Path | None = None) -> None:
        self.name = name
        self._path = path
        self._stamp = _stamp(path)

    @abstractmethod
    def lines(self, first_line: int = 1, start: int = 0) -> Iterator[Line]:
        """From line ``first_line`` on, which begins at byte ``start`` of the rows' text."""

    def check_unchanged(self) -> None:
        """Raises where somebody has written to the file since it was first read."""
        if _stamp(self._path) != self._stamp:
            raise ValueError(f"{self.name}: expected the file to stay as it is while it is worked on, but it changed")


class Text(Source):
    """JSONL, as it is or in gzip."""

    def __init__(self, name: str, opened: Callable[[], BinaryIO], path: Path | None = None) -> None:
        super().__init__(name, path)
        self._opened = opened
        with opened() as file:
            self._packed = file.read(2) == GZIP
        self.seeks = not self._packed

    def lines(self, first_line: int = 1, start: int = 0) -> Iterator[Line]:
        with self._opened() as file:
            unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if self._packed else file
            unpacked.seek(start)
            try:
                for number, raw in enumerate(unpacked, first_line):
                    yield Line(number, raw)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"{self.name}: expected whole gzip data, got an error: {error}") from error


class ParquetFile(Source):
    """A Parquet file."""

    def __init__(self, path: Path, columns: Mapping[str, str], fields: Fields) -> None:
        super().__init__(str(path), path)
        self._file = path
        with _readable(self.name):
            self._columns = chosen_columns(self.name, pq.read_schema(path).names, columns, fields)

    def lines(self, first_line: int = 1, start: int = 0) -> Iterator[Line]:
        with _readable(self.name), pq.ParquetFile(self._file) as file:
            groups: list[int] = []
            before = 0
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if groups or before + rows >= first_line:
                    groups.append(group)
                else:
                    before += rows
            batches = file.iter_batches(BATCH, row_groups=groups, columns=self._columns)
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, row in enumerate(islice(rows, first_line - 1 - before, None), first_line):
                yield row_line(number, row)


class DataSet(Source):
    """A data set of the ``datasets`` package, mapped into memory from its files."""

    def __init__(self, name: str, rows: Any, columns: Mapping[str, str], fields: Fields) -> None:
        super().__init__(name)
        self._rows = rows.select_columns(chosen_columns(name, rows.column_names, columns, fields))

    def lines(self, first_line: int = 1, start: int = 0) -> Iterator[Line]:
        rows = self._rows.select(range(first_line - 1, len(self._rows)))
        for number, row in enumerate(rows, first_line):
            yield row_line(number, row)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turns what Arrow says of a broken file into one line."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        text = one_line(str(error))
        raise ValueError(f"{name}: expected a Parquet file, got none that can be read ({text})") from error


def open_source(
    data: str | Path, columns: Mapping[str, str] | None = None, split: str | None = None, fields: Fields = EXAMPLE
) -> Source:
    """The rows of ``data``; ``columns`` says which column is which of the ``fields`` where their names differ."""
    columns, path, name = check_columns(columns or {}, fields), as_path("data", data), str(data)
    if name == "-":
        return spooled("standard input", sys.stdin.buffer)
    if name.startswith(HUB):
        return DataSet(name, _loaded(name.removeprefix(HUB), split), columns, fields)
    if path.is_dir():
        return DataSet(name, _loaded(path, split), columns, fields)
    if not path.exists():
        raise ValueError(
            f"{path}: expected a JSONL or Parquet file (gzip or not), the folder of a data set, {HUB}NAME or - for "
            "standard input, got nothing there"
        )
    if split is not None:
        raise ValueError(f"split: expected none, because {path} is a file without splits, got {split!r}")
    if not path.is_file():  # a pipe
        with path.open("rb") as pipe:
            return spooled(name, pipe)
    with path.open("rb") as file:
        if file.read(len(PARQUET)) == PARQUET:
            return ParquetFile(path, columns, fields)
    return Text(name, lambda: path.open("rb"), path)


def spooled(name: str, stream: BinaryIO) -> Source:
    """What can be read only once, in a temporary file that has no name: nothing is left of it, whatever happens."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the source
    shutil.copyfileobj(stream, spool)
    spool.flush()

    def opened() -> BinaryIO:
        again = os.fdopen(os.dup(spool.fileno()), "rb")
        again.seek(0)
        return again

    return Text(name, opened)


def check_columns(columns: Mapping[str, str], fields: Fields) -> Mapping[str, str]:
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns.values()):
        raise ValueError(f"columns: expected field -> name of the column, got {columns!r}")
    unknown = [field for field in columns if field not in fields.names]
    if unknown:
        raise ValueError(f"column: expected one of the fields {', '.join(fields.names)}, got {unknown[0]!r}")
    return columns


def chosen_columns(name: str, there: list[str], columns: Mapping[str, str], fields: Fields) -> list[str]:
    """The columns with the fields of a row; those that every row needs must be there."""
    chosen = {field: columns.get(field, field) for field in fields.names}
    missing = [field for field, column in columns.items() if column not in there]
    missing += [some[0] for some in fields.needed if not any(chosen[field] in there for field in some)]
    if missing:
        raise ValueError(
            f"{name}: expected a column {chosen[missing[0]]!r}, got {', '.join(there)}; "
            f"say which one it is: --column {missing[0]}=NAME"
        )
    return [column for column in dict.fromkeys(chosen.values()) if column in there]


def row_line(number: int, row: Mapping[str, Any]) -> Line:
    """A row of a table as the line it would be in JSONL; None is how tables write that there is no such field."""
    fields = {name: value for name, value in row.items() if value is not None}
    text = json.dumps(fields, ensure_ascii=False, default=lambda value: {"type": type(value).__name__})
    return Line(number, text.encode("utf-8", errors="surrogatepass"))


def _loaded(place: str | Path, split: str | None) -> Any:
    """One split of a data set: the one asked for, the only one, or train."""
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(f"{place}: data sets need one more package: pip install 'keepset[datasets]'") from error
    try:
        if isinstance(place, Path) and any((place / name).exists() for name in ("state.json", "dataset_dict.json")):
            found = datasets.load_from_disk(str(place))
        else:
            found = datasets.load_dataset(str(place))
    except Exception as error:  # datasets raises whatever its builders, the hub and the file system raise
        text = one_line(str(error))[:300]
        raise ValueError(f"{place}: expected a data set that 'datasets' can load, got an error: {text}") from error
    if not isinstance(found, dict):
        return found
    chosen = split or ("train" if "train" in found or len(found) != 1 else next(iter(found)))
    if chosen not in found:
        raise ValueError(f"{place}: expected one of the splits {', '.join(found)}, got {chosen!r}; choose with --split")
    return found[chosen]


def _stamp(path: Path | None) -> Stamp:
    if path is None:
        return (0, 0)
    found = path.stat()
    return found.st_size, found.st_mtime_ns

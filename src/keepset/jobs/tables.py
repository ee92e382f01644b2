"""Records as Parquet: one table per shard, which says in its metadata what it holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pydantic import Field, ValidationError

from keepset.files import Frozen, replacing_file, sha256
from keepset.jobs.outcome import R, Record
from keepset.terminal import one_line

NOTE = b"keepset"
"""Where a table keeps its ``ShardNote``."""

ARROW: dict[Any, tuple[pa.DataType, str]] = {
    str: (pa.string(), "string"),
    bool: (pa.bool_(), "bool"),
    int: (pa.int64(), "int64"),
    float: (pa.float32(), "float32"),
    list[str]: (pa.list_(pa.string()), "list of string"),
    list[bool]: (pa.list_(pa.bool_()), "list of bool"),
    list[int]: (pa.list_(pa.int32()), "list of int32"),
    list[float]: (pa.list_(pa.float32()), "list of float32"),
    list[list[int]]: (pa.list_(pa.list_(pa.int32())), "list of lists of int32"),
}
"""How a field of a record is stored, and what that is called."""


def schema_of(record: type[Record]) -> pa.Schema:
    return pa.schema({name: ARROW[field.annotation][0] for name, field in record.model_fields.items()})


def columns_table(record: type[Record]) -> str:
    """The columns as markdown, for the pages about labels and about compressing."""
    rows = (
        f"| `{name}` | {ARROW[field.annotation][1]} | {' '.join(str(field.description).split())} |\n"
        for name, field in record.model_fields.items()
    )
    return "| column | type | |\n|---|---|---|\n" + "".join(rows)


class ShardNote(Frozen):
    """What the table of a finished shard holds, as it says itself."""

    file: Annotated[str, Field(pattern=r"^data/shard-\d{5,9}\.parquet$")]
    """Inside the folder, whoever wrote the manifest."""
    first_line: int
    last_line: int
    records: int
    """Rows in the table."""
    rejected: int
    """Rows of these lines that are in the rejects instead."""
    job: str
    """Identity of the job that wrote it."""

    @property
    def rejects_file(self) -> str:
        """Inside the folder; there is none where nothing was rejected."""
        return f"rejects/{Path(self.file).stem}.jsonl"


class FinishedShard(ShardNote):
    """The same in the manifest, with what shows damage."""

    sha256: str
    """Of the table."""
    rejects_sha256: str | None
    """Of the file of rejects; None where there is none."""


def write_table(path: Path, record: type[Record], records: Sequence[Record], note: ShardNote) -> str:
    """Writes a shard and gives its sha256; there is nothing at ``path`` before it is complete."""
    schema = schema_of(record).with_metadata({NOTE: note.model_dump_json().encode()})
    table = pa.Table.from_pylist([found.model_dump() for found in records], schema=schema)
    with replacing_file(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as file:
            if records:  # load_dataset fails on a table with a row group of no rows, and takes one with no row group
                file.write_table(table)
        return sha256(temporary)


def read_rows(path: Path, record: type[R]) -> Iterator[R]:
    """The records of the shard at ``path``."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from map(record.model_validate, batch.to_pylist())
    except (OSError, pa.ArrowInvalid, ValidationError) as error:
        raise ValueError(
            f"{path}: expected a table with {', '.join(record.model_fields)}, got none that can be read "
            f"({one_line(str(error))}); delete it and run the same command again to make it anew"
        ) from error


def read_note(path: Path) -> ShardNote:
    """What the shard at ``path`` holds, from its footer."""
    try:
        return ShardNote.model_validate_json((pq.read_schema(path).metadata or {})[NOTE])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a table that keepset wrote, got something else ({error}); "
            "delete it and run the same command again"
        ) from error

"""Labels as Parquet: one table per shard, which says in its metadata what it holds."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

from keepset.files import replacing_file
from keepset.jobs.labelling import Record

NOTE = b"keepset"
"""Where a table keeps its ``ShardNote``."""

INTS, FLOATS, BOOLS, STRINGS = (pa.list_(kind) for kind in (pa.int32(), pa.float32(), pa.bool_(), pa.string()))

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "line": pa.int64(),
        "question": pa.string(),
        "answer": pa.string(),
        "candidates": STRINGS,
        "n_blocks": pa.int32(),
        "blocks": STRINGS,
        "char_start": INTS,
        "char_stop": INTS,
        "tokens": INTS,
        "token_start": INTS,
        "token_stop": INTS,
        "clean_correct": pa.bool_(),
        "clean_log_prob": pa.float32(),
        "drop": FLOATS,
        "flip": BOOLS,
        "sufficient": BOOLS,
        "measured": BOOLS,
        "evidence": INTS,
        "case": pa.string(),
        "attention": FLOATS,
        "cost": pa.int64(),
    }
)
"""The columns; what they mean stands at the fields of ``Record``."""


class ShardNote(BaseModel):
    """What a finished shard holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    first_line: int
    last_line: int
    labelled: int
    """Rows in the table."""
    rejected: int
    """Rows of these lines that are in the rejects instead."""
    job: str
    """Identity of the job that wrote it."""


def write_table(path: Path, records: Sequence[Record], note: ShardNote) -> None:
    """Writes a shard; there is nothing at ``path`` before it is complete."""
    schema = SCHEMA.with_metadata({NOTE: note.model_dump_json().encode()})
    table = pa.Table.from_pylist([record.model_dump() for record in records], schema=schema)
    with replacing_file(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as file:
        if records:  # load_dataset fails on a table with a row group of no rows, and takes one with no row group
            file.write_table(table)


def read_note(path: Path) -> ShardNote:
    """What the shard at ``path`` holds, from its footer."""
    try:
        return ShardNote.model_validate_json((pq.read_schema(path).metadata or {})[NOTE])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a table written by 'keepset label', got something else ({error}); "
            "delete it and run the same command again"
        ) from error

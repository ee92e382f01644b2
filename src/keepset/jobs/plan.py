"""The input cut into shards by lines: each can be labelled alone, in any order, by anybody who has the file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from keepset.text.jsonl import read_lines


@dataclass(frozen=True)
class Shard:
    """A range of lines."""

    number: int
    first_line: int
    """From 1."""
    last_line: int
    """The last one that belongs to it."""
    start: int
    """Byte at which the first line begins."""
    stop: int
    """Byte after the last line."""
    rows: int
    """Lines that are not blank."""


@dataclass(frozen=True)
class ShardPlan:
    """A file and its shards."""

    path: Path
    sha256: str
    """Of the whole file: it is read from end to end anyway to find its lines."""
    shards: tuple[Shard, ...]
    stamp: tuple[int, int]
    """Size and time of change, to see that nobody writes to the file while it is labelled."""

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def check_unchanged(self) -> None:
        if _stamp(self.path) != self.stamp:
            raise ValueError(f"{self.path}: expected the file to stay as it is while it is labelled, but it changed")


def plan_shards(path: Path, shard_rows: int) -> ShardPlan:
    """Shards of ``shard_rows`` rows each; one without rows when the file has none, so that it still has a table."""
    if shard_rows < 1:
        raise ValueError(f"shard_rows: expected at least 1, got {shard_rows}")
    if not path.is_file():
        raise ValueError(f"{path}: expected a JSONL file, got {'a folder' if path.is_dir() else 'nothing there'}")
    stamp = _stamp(path)
    digest = hashlib.sha256()
    shards: list[Shard] = []
    line = position = rows = 0
    first_line, start = 1, 0
    for found in read_lines(path):
        if rows == shard_rows and found.content:
            shards.append(Shard(len(shards), first_line, line, start, position, rows))
            first_line, start, rows = found.number, position, 0
        digest.update(found.raw)
        line, position, rows = found.number, position + len(found.raw), rows + bool(found.content)
    shards.append(Shard(len(shards), first_line, line, start, position, rows))
    return ShardPlan(path, digest.hexdigest(), tuple(shards), stamp)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns

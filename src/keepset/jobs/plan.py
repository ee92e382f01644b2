"""The input cut into shards, and shards into groups: a group is done at once, in any order, by anybody."""

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from keepset.jobs.sources import Source
from keepset.text.jsonl import Line

GROUP = 8
"""Rows done together, counted from the beginning of their shard: a row has the same neighbours, and with them the
same last digits of its numbers, in every run and whoever does it."""


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
    rows: int
    """Lines that are not blank."""

    def group_rows(self, first_row: int) -> int:
        """How many rows the group has that begins with row ``first_row``; 0 when none does."""
        begins = 0 <= first_row < self.rows and first_row % GROUP == 0
        return min(GROUP, self.rows - first_row) if begins else 0


@dataclass(frozen=True)
class RowGroup:
    """Rows that are done together."""

    shard: int
    first_row: int
    """Its place in the shard, from 0."""
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return f"lines {self.lines[0].number} to {self.lines[-1].number}"


@dataclass(frozen=True)
class ShardPlan:
    """Rows and their shards."""

    source: Source
    sha256: str
    """Of all rows: they are read from end to end anyway to count them."""
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def groups(self, shards: Sequence[Shard], done: Mapping[int, Container[int]]) -> Iterator[RowGroup]:
        """The groups of ``shards``, in order, without those whose first rows are ``done`` already, by shard."""
        for shard, rows in self._rows(shards):
            for first_row in range(0, shard.rows, GROUP):
                lines = tuple(islice(rows, shard.group_rows(first_row)))
                if first_row not in done.get(shard.number, ()):
                    self.source.check_unchanged()
                    yield RowGroup(shard.number, first_row, lines)

    def _rows(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, Iterator[Line]]]:
        """Each shard with its rows, which have to be read before the next shard: one pass where seeking is no help."""
        lines: Iterator[Line] = iter(())
        expected = 0
        for shard in shards:
            if not expected or (self.source.seeks and expected != shard.first_line):
                begin = (shard.first_line, shard.start) if self.source.seeks else (1, 0)
                lines = self.source.lines(*begin)
            expected = shard.last_line + 1
            yield shard, _within(lines, shard)


def plan_shards(source: Source, shard_rows: int) -> ShardPlan:
    """Shards of ``shard_rows`` rows each."""
    if not isinstance(shard_rows, int) or shard_rows < 1:
        raise ValueError(f"shard_rows: expected at least 1, got {shard_rows!r}")
    digest = hashlib.sha256()
    shards: list[Shard] = []
    line = position = rows = 0
    first_line, start = 1, 0
    for found in source.lines():
        if rows == shard_rows and found.content:
            shards.append(Shard(len(shards), first_line, line, start, rows))
            first_line, start, rows = found.number, position, 0
        digest.update(found.raw)
        line, position, rows = found.number, position + len(found.raw), rows + bool(found.content)
    if not rows:
        raise ValueError(f"{source.name}: expected at least one row, got none")
    shards.append(Shard(len(shards), first_line, line, start, rows))
    return ShardPlan(source, digest.hexdigest(), tuple(shards))


def _within(lines: Iterator[Line], shard: Shard) -> Iterator[Line]:
    """The rows of ``shard``; ``lines`` stands after its last line then."""
    for line in lines:
        if line.number >= shard.first_line and line.content:
            yield line
        if line.number == shard.last_line:
            return

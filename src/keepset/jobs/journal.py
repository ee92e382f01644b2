"""Rows of a shard in work, kept group by group, so that a kill costs one group and not the shard.

A line is

    job  shard  first row  rows  sha256  records and rejects

and counts when it is whole, of this job and shard, and the first of its group: whatever else stands in the file is
dropped and its rows are done again. Groups may come in any order.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Generic

from pydantic import ValidationError

from keepset.files import Frozen, open_appending, refuse_link, replacing_file
from keepset.jobs.outcome import Outcome, R, Reject
from keepset.jobs.plan import Shard

FIELDS = 6
"""Of a line."""


class Group(Frozen, Generic[R]):
    """The last field of a line."""

    records: list[R]
    rejects: list[Reject]


class Journal(Generic[R]):
    """An append-only file of one shard of one job."""

    def __init__(self, path: Path, job: str, shard: Shard, record: type[R]) -> None:
        self.path = path
        self.job = job
        self.shard = shard
        self._group = Group[record]  # type: ignore[valid-type]

    def load(self) -> Mapping[int, Outcome[R]]:
        """What is there, by first row, in the order of the rows; lines that do not count are removed."""
        refuse_link(self.path)
        if not self.path.exists():
            return {}
        found: dict[int, Outcome[R]] = {}
        good: list[bytes] = []
        dropped = False
        with self.path.open("rb") as file:
            for line in file:
                first_row, outcome = self._read(line)
                if outcome is None or first_row in found:
                    dropped = True
                    continue
                found[first_row] = outcome
                good.append(line)
        if dropped:
            with replacing_file(self.path) as temporary:
                temporary.write_bytes(b"".join(good))
        return dict(sorted(found.items()))

    def append(self, first_row: int, outcome: Outcome[R]) -> None:
        """The group that begins with ``first_row`` is done."""
        content = self._group(records=outcome.records, rejects=outcome.rejects).model_dump_json().encode()
        place = f"{self.job} {self.shard.number} {first_row} {outcome.rows}"
        with open_appending(self.path) as file:
            file.write(f"{place} {_checksum(place, content)} ".encode() + content + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _read(self, line: bytes) -> tuple[int, Outcome[R] | None]:
        """First row and what became of the group; None when the line does not count."""
        fields = line.split(b" ", FIELDS - 1)
        if len(fields) < FIELDS or not line.endswith(b"\n"):
            return -1, None
        place, checksum, content = fields[:4], fields[4], fields[5][:-1]
        try:
            written = b" ".join(place).decode("ascii")
            job, shard, first_row, rows = written.split(" ")
            expected = self.shard.group_rows(int(first_row))
            if (job, int(shard), int(rows)) != (self.job, self.shard.number, expected) or not expected:
                return -1, None
            if checksum.decode("ascii") != _checksum(written, content):
                return -1, None
            group = self._group.model_validate_json(content)
        except (ValueError, ValidationError):
            return -1, None
        lines = {found.line for found in (*group.records, *group.rejects)}
        if len(lines) != expected or not all(self.shard.first_line <= line <= self.shard.last_line for line in lines):
            return -1, None
        return int(first_row), Outcome(group.records, group.rejects)


def _checksum(place: str, content: bytes) -> str:
    return hashlib.sha256(place.encode() + b" " + content).hexdigest()

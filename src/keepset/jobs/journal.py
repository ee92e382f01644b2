"""Rows of a shard in work, kept group by group, so that a kill costs one group and not the shard."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from keepset.jobs.labelling import LabelRow, Outcome, Reject


class Group(BaseModel):
    """One line of the journal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    records: list[LabelRow]
    rejects: list[Reject]


class Journal:
    """An append-only file. A line counts when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Outcome:
        """What is there; a line that a kill cut short is removed."""
        found = Outcome([], [])
        if not self.path.exists():
            return found
        good = 0
        with self.path.open("rb") as file:
            for line in file:
                group = _group(line)
                if group is None:
                    break
                found.records.extend(group.records)
                found.rejects.extend(group.rejects)
                good += len(line)
        os.truncate(self.path, good)
        return found

    def append(self, outcome: Outcome) -> None:
        text = Group(records=outcome.records, rejects=outcome.rejects).model_dump_json() + "\n"
        with self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _group(line: bytes) -> Group | None:
    """None when the line is torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        return Group.model_validate_json(line)
    except ValidationError:
        return None

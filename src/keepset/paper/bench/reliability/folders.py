"""Jobs to be hard on: rows, a job that was never stopped to compare with, and what differs from it."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepset.jobs.stored import check_labels, stored_rejects, stored_rows

SHARD_ROWS = 40
BAD_EVERY = 11
"""One row in so many cannot be labelled."""


def facts(i: int) -> dict[str, Any]:
    """A row that the untrained model labels in milliseconds."""
    return {
        "context": f"The code for NARO is {4_000 + i}.\n\nThe code for BELU is 42.\n\nNobody is here, {i}.",
        "question": "What is the code for BELU?",
        "answer": "42",
        "candidates": ["42", f"{4_000 + i}"],
    }


def write_rows(path: Path, n: int) -> Path:
    """``n`` rows, a bad one here and there."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            file.write("{broken\n" if i % BAD_EVERY == 4 else json.dumps(facts(i)) + "\n")
    return path


def checksums(out: Path) -> dict[str, str]:
    """Every file a user sees, and every one left over."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != ".lock")
    return {path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass(frozen=True)
class Differences:
    """How a folder differs from one that was never stopped, in rows and in files."""

    lost: int
    twice: int
    different: int
    """Rows with other labels or reasons."""
    files: int
    """Files with other bytes, too few or too many."""


def compare(out: Path, whole: Path) -> Differences:
    found, expected = numbered_rows(out), numbered_rows(whole)
    lines = Counter(line for line, _ in found)
    known = dict(expected)
    mine, theirs = checksums(out), checksums(whole)
    return Differences(
        lost=len(known.keys() - lines.keys()),
        twice=sum(n - 1 for n in lines.values()),
        different=sum(known.get(line) != row for line, row in found),
        files=sum(mine.get(name) != theirs.get(name) for name in mine.keys() | theirs.keys()),
    )


def numbered_rows(folder: Path) -> list[tuple[int, str]]:
    """Line and labels, or line and reason, of every row."""
    labelled = [(row.line, row.model_dump_json()) for row in stored_rows(folder, check_labels(folder))]
    return labelled + [(reject["line"], json.dumps(reject)) for reject in stored_rejects(folder)]

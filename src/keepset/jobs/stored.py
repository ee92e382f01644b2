"""A folder of labels as others read it: nothing is taken from a shard before its bytes are those that were written."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepset.files import sha256
from keepset.jobs.labelling import LabelRow
from keepset.jobs.manifest import Manifest, read_manifest
from keepset.jobs.tables import FinishedShard, read_rows

AGAIN = "delete it and run the same 'keepset label' again to make it anew"


@dataclass(frozen=True)
class LabelStatistics:
    """What a folder of labels holds, counted."""

    manifest: Manifest
    rejects: Counter[str]
    """By reason, up to the first colon: the field that was wrong."""
    rules: Counter[str]
    cases: Counter[str]
    evidence: Counter[int]
    """Rows by the size of their evidence set."""
    answered: int
    """Rows whose answer the model gives with every block visible."""
    blocks: int
    tokens: int
    cost: int
    """Tokens run through the model."""

    @property
    def labelled(self) -> int:
        return sum(shard.labelled for shard in self.manifest.shards)

    @property
    def rejected(self) -> int:
        return sum(shard.rejected for shard in self.manifest.shards)

    @property
    def missing(self) -> int:
        """Rows of shards that are not finished."""
        return self.manifest.rows - self.labelled - self.rejected


def check_labels(folder: Path) -> Manifest:
    """The manifest of a folder of labels, at least one shard of which is finished."""
    manifest = read_manifest(folder / "manifest.json")
    if manifest is None:
        raise ValueError(
            f"{folder}: expected a folder written by 'keepset label' (with a manifest.json), "
            f"got {'another one' if folder.is_dir() else 'no folder'}"
        )
    if not manifest.shards:
        raise ValueError(f"{folder}: expected finished labels, got none yet; run 'keepset label' again to go on")
    return manifest


def check_shard(folder: Path, shard: FinishedShard) -> None:
    """A shard's table and rejects are as they were written."""
    rejects = Path("rejects") / Path(shard.file).with_suffix(".jsonl").name
    for file, expected in ((Path(shard.file), shard.sha256), (rejects, shard.rejects_sha256)):
        if expected is None:
            continue
        path = folder / file
        if not path.is_file():
            raise ValueError(f"{path}: expected a file of the finished shard {shard.file}, got none; {AGAIN}")
        found = sha256(path)
        if found != expected:
            raise ValueError(
                f"{path}: expected the bytes that were written (sha256 {expected[:8]}), got others ({found[:8]}); "
                f"it is damaged: {AGAIN}"
            )


def stored_rows(folder: Path, manifest: Manifest) -> Iterator[LabelRow]:
    """Every row of the finished shards, in order."""
    for shard in manifest.shards:
        check_shard(folder, shard)
        yield from read_rows(folder / shard.file)


def verify(folder: Path) -> LabelStatistics:
    """Reads everything; every row stands where the manifest says, once."""
    found = label_statistics(folder)
    for shard in found.manifest.shards:
        lines = [row.line for row in read_rows(folder / shard.file)]
        lines += [reject["line"] for reject in _rejects(folder, shard)]
        inside = all(shard.first_line <= line <= shard.last_line for line in lines)
        if not inside or len(set(lines)) != len(lines) or len(lines) != shard.labelled + shard.rejected:
            raise ValueError(
                f"{folder / shard.file}: expected each of its {shard.labelled + shard.rejected} rows once, of lines "
                f"{shard.first_line} to {shard.last_line}, got {len(lines)} rows, {len(set(lines))} different; {AGAIN}"
            )
    return found


def label_statistics(folder: Path) -> LabelStatistics:
    """Counts over every row."""
    manifest = check_labels(folder)
    rules, cases, evidence = Counter[str](), Counter[str](), Counter[int]()
    answered = blocks = tokens = cost = 0
    for row in stored_rows(folder, manifest):
        rules[row.rule] += 1
        cases[row.case] += 1
        evidence[len(row.evidence)] += 1
        answered += row.clean_correct
        blocks += row.n_blocks
        tokens += len(row.tokens)
        cost += row.cost
    rejects = Counter(str(reject["reason"]).split(":")[0] for reject in stored_rejects(folder))
    return LabelStatistics(manifest, rejects, rules, cases, evidence, answered, blocks, tokens, cost)


def stored_rejects(folder: Path) -> Iterator[dict[str, Any]]:
    """What could not be labelled, with the reasons."""
    manifest = check_labels(folder)
    return (reject for shard in manifest.shards for reject in _rejects(folder, shard))


def _rejects(folder: Path, shard: FinishedShard) -> Iterator[dict[str, Any]]:
    if shard.rejected:
        with (folder / "rejects" / Path(shard.file).with_suffix(".jsonl").name).open("rb") as file:
            for line in file:
                yield json.loads(line)

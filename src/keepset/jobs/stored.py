"""A folder of labels as others read it: nothing is taken from a shard before its bytes are those that were written."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepset.files import as_path
from keepset.jobs.kinds import LABELS, LabelJob
from keepset.jobs.labelling import LabelRow
from keepset.jobs.manifest import Manifest, check_shard, read_manifest
from keepset.jobs.tables import FinishedShard, read_rows

LabelManifest = Manifest[LabelJob]


@dataclass(frozen=True)
class LabelStatistics:
    """What a folder of labels holds, counted."""

    manifest: LabelManifest
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
        return sum(shard.records for shard in self.manifest.shards)

    @property
    def rejected(self) -> int:
        return sum(shard.rejected for shard in self.manifest.shards)

    @property
    def missing(self) -> int:
        """Rows of shards that are not finished."""
        return self.manifest.rows - self.labelled - self.rejected


def check_labels(folder: Path) -> LabelManifest:
    """The manifest of a folder of labels, at least one shard of which is finished."""
    manifest = read_manifest(folder / "manifest.json", LABELS)
    if manifest is None:
        raise ValueError(
            f"{folder}: expected a folder written by 'keepset label' (with a manifest.json), "
            f"got {'another one' if folder.is_dir() else 'no folder'}"
        )
    if not manifest.shards:
        raise ValueError(f"{folder}: expected finished labels, got none yet; run 'keepset label' again to go on")
    return manifest


def stored_rows(folder: Path, manifest: LabelManifest) -> Iterator[LabelRow]:
    """Every row of the finished shards, in order."""
    for shard in manifest.shards:
        check_shard(folder, shard, LABELS.command)
        yield from read_rows(folder / shard.file, LabelRow)


def verify(folder: str | Path) -> LabelStatistics:
    """Reads everything; every row stands where the manifest says, once."""
    folder = as_path("labels", folder)
    found = label_statistics(folder)
    for shard in found.manifest.shards:
        lines = [row.line for row in read_rows(folder / shard.file, LabelRow)]
        lines += [reject["line"] for reject in _rejects(folder, shard)]
        inside = all(shard.first_line <= line <= shard.last_line for line in lines)
        if not inside or len(set(lines)) != len(lines) or len(lines) != shard.records + shard.rejected:
            raise ValueError(
                f"{folder / shard.file}: expected each of its {shard.records + shard.rejected} rows once, of lines "
                f"{shard.first_line} to {shard.last_line}, got {len(lines)} rows, {len(set(lines))} different; "
                "delete it and run the same 'keepset label' again to make it anew"
            )
    return found


def label_statistics(folder: str | Path) -> LabelStatistics:
    """Counts over every row."""
    folder = as_path("labels", folder)
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
        with (folder / shard.rejects_file).open("rb") as file:
            for line in file:
                yield json.loads(line)

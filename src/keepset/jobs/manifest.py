"""What the folder of a job says about itself, and whether a command may go on with it."""

import hashlib
import json
from pathlib import Path
from typing import Any, Generic

from keepset.files import Frozen, sha256
from keepset.jobs.kinds import J, Kind
from keepset.jobs.tables import FinishedShard

SCHEMA_VERSION = 6
"""Of the manifest and the tables. Raise when older folders cannot be gone on with."""

CHECK = "sha256"
"""Field of the stored manifest."""


class Manifest(Frozen, Generic[J]):
    """``manifest.json``."""

    schema_version: int = SCHEMA_VERSION
    command: str
    """That the job is one of: label or compress."""
    job: J
    rows: int
    """Lines of the data that are not blank."""
    shards: tuple[FinishedShard, ...]
    """The finished ones."""

    def text(self) -> str:
        """As it is stored: the last field is the sha256 of the others."""
        fields = self.model_dump(mode="json")
        return json.dumps(fields | {CHECK: _checksum(fields)}, indent=1, ensure_ascii=False) + "\n"


def read_manifest(path: Path, kind: Kind[J, Any]) -> Manifest[J] | None:
    """The manifest of an earlier run; None when there is none."""
    if not path.exists():
        return None
    try:
        if not path.is_file():
            raise ValueError("expected a file")
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        version = found.get("schema_version")
        if isinstance(version, int) and version != SCHEMA_VERSION:
            raise ValueError(f"expected schema {SCHEMA_VERSION}, got {version}: another keepset wrote it")
        if found.pop(CHECK, None) != _checksum(found):
            raise ValueError("its checksum is wrong: it is damaged, or was changed by hand")
        if found.get("command") != kind.command:
            raise ValueError(f"expected one by 'keepset {kind.command}', got 'keepset {found.get('command')}'")
        return Manifest[kind.job].model_validate(found)  # type: ignore[name-defined]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a manifest to go on from: {error}. Choose another folder") from error


def check_shard(folder: Path, shard: FinishedShard, command: str) -> None:
    """A shard's table and rejects are as they were written."""
    again = f"run the same 'keepset {command}' again to make the shard anew"
    if (folder / shard.file).exists():  # a shard is made anew where its table is missing, whatever else is wrong
        again = f"delete {folder / shard.file} and {again}"
    for file, expected in ((shard.file, shard.sha256), (shard.rejects_file, shard.rejects_sha256)):
        if expected is None:
            continue
        path = folder / file
        if not path.is_file():
            raise ValueError(f"{path}: expected a file of the finished shard {shard.file}, got none; {again}")
        found = sha256(path)
        if found != expected:
            raise ValueError(
                f"{path}: expected the bytes that were written (sha256 {expected[:8]}), got others ({found[:8]}); "
                f"it is damaged: {again}"
            )


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

"""What a folder of labels says about itself, and whether a command may go on with it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from keepset.jobs.tables import FinishedShard
from keepset.models.quantize import Quantize

SCHEMA_VERSION = 5
"""Of the manifest and the tables. Raise when older folders cannot be gone on with."""

CHECK = "sha256"
"""Field of the stored manifest."""


class LabelJob(BaseModel):
    """What is labelled, and with what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    """Name of the data."""
    data_sha256: str
    """Of all rows."""
    columns: dict[str, str]
    """Field -> what the data calls it, where that is another name."""
    model: str
    """Name it was loaded by."""
    model_fingerprint: str
    """Of config, tokenizer and a sample of every weight."""
    weights_fingerprint: str
    """Of the model without its tokenizer: whoever trains on the labels may have nothing else."""
    dtype: str
    """Precision of the weights; it decides near-ties between answers."""
    quantize: Quantize | None = None
    """How its products were rounded, as ``load_model`` takes it."""
    blocks: str
    """How contexts are cut."""
    effort: str
    """How much is measured: evidence, exact, grouped or certified."""
    rule: str
    """What counts as evidence."""
    shard_rows: int
    """Rows per shard."""
    versions: dict[str, str]
    """Packages when the job began."""

    def identity(self) -> dict[str, str | int | dict[str, str]]:
        """What must be the same to go on: contents, not names."""
        return self.model_dump(exclude={"data", "model", "weights_fingerprint", "quantize", "versions"})

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: "LabelJob") -> list[str]:
        """Every field in which ``other`` is another job."""
        names = {"data_sha256": (self.data, other.data), "model_fingerprint": (self.model, other.model)}
        now = other.identity()
        found = []
        for field, value in self.identity().items():
            if value != now[field]:
                mine, theirs = names.get(field, ("", ""))
                found.append(f"{field} was {value!r} {mine}".rstrip() + f", is {now[field]!r} {theirs}".rstrip())
        return found


class Manifest(BaseModel):
    """``manifest.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    job: LabelJob
    rows: int
    """Lines of the data that are not blank."""
    shards: tuple[FinishedShard, ...]
    """The finished ones."""

    def text(self) -> str:
        """As it is stored: the last field is the sha256 of the others."""
        fields = self.model_dump(mode="json")
        return json.dumps(fields | {CHECK: _checksum(fields)}, indent=1, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of an earlier run; None when there is none."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found.get("schema_version") if isinstance(found, dict) else None
        if isinstance(version, int) and version != SCHEMA_VERSION:
            raise ValueError(f"expected schema {SCHEMA_VERSION}, got {version}: another keepset wrote it")
        if isinstance(found, dict) and found.pop(CHECK, None) != _checksum(found):
            raise ValueError("its checksum is wrong: it is damaged, or was changed by hand")
        return Manifest.model_validate(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a manifest to go on from: {error}. Choose another folder") from error


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

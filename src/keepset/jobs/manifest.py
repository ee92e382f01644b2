"""What a folder of labels says about itself, and whether a command may go on with it."""

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from keepset.jobs.tables import ShardNote
from keepset.models.quantize import Quantize

SCHEMA_VERSION = 4
"""Of the manifest and the tables. Raise when older folders cannot be gone on with."""


class LabelJob(BaseModel):
    """What is labelled, and with what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    """Name of the file."""
    data_sha256: str
    """Of the whole file."""
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

    def identity(self) -> dict[str, str | int]:
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
    shards: tuple[ShardNote, ...]
    """The finished ones."""


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of an earlier run; None when there is none."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found.get("schema_version") if isinstance(found, dict) else None
        if isinstance(version, int) and version != SCHEMA_VERSION:
            raise ValueError(f"expected schema {SCHEMA_VERSION}, got {version}: another keepset wrote it")
        return Manifest.model_validate(found)
    except (ValueError, ValidationError) as error:
        raise ValueError(f"{path}: not a manifest to go on from: {error}. Choose another folder") from error

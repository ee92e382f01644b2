"""The two kinds of jobs: what is made of rows, and what of a job must be the same to go on with it."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from keepset.files import Frozen
from keepset.jobs.compressing import CompressedRow
from keepset.jobs.labelling import LabelRow
from keepset.jobs.outcome import R
from keepset.models.quantize import Quantize


class DataJob(Frozen):
    """What is done to which data; each kind adds with what."""

    NAMES: ClassVar[dict[str, str]] = {"data_sha256": "data"}
    """Field that is a hash -> field with the name of what it is the hash of."""
    UNIMPORTANT: ClassVar[frozenset[str]] = frozenset({"data", "versions"})
    """May be another one when the job goes on: names, not contents."""

    data: str
    """Name of the data."""
    data_sha256: str
    """Of all rows."""
    columns: dict[str, str]
    """Field -> what the data calls it, where that is another name."""
    shard_rows: int
    """Rows per shard."""
    versions: dict[str, str]
    """Packages when the job began."""

    def identity(self) -> dict[str, Any]:
        """What must be the same to go on: contents, not names."""
        return self.model_dump(exclude=set(self.UNIMPORTANT))

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: "DataJob") -> list[str]:
        """Every field in which ``other``, a job of the same kind, is another one."""
        now = other.identity()
        found = []
        for field, value in self.identity().items():
            if value != now[field]:
                name = self.NAMES.get(field)
                mine, theirs = (f" {getattr(job, name)}" if name else "" for job in (self, other))
                found.append(f"{field} was {value!r}{mine}, is {now[field]!r}{theirs}")
        return found


class LabelJob(DataJob):
    """What is labelled, and with what."""

    NAMES = DataJob.NAMES | {"model_fingerprint": "model"}
    UNIMPORTANT = DataJob.UNIMPORTANT | {"model", "weights_fingerprint", "quantize"}

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


class CompressJob(DataJob):
    """What is compressed, and how far."""

    NAMES = DataJob.NAMES | {"reader_fingerprint": "reader"}
    UNIMPORTANT = DataJob.UNIMPORTANT | {"reader"}

    reader: str
    """Name of the model that reads."""
    reader_fingerprint: str
    """Of config, tokenizer and a sample of every weight."""
    router_fingerprint: str
    """Of the settings and weights of the router."""
    budget: str
    """A share of the tokens, or a number of them."""
    question: str | None
    """What to keep the answer to; None when nobody has asked."""


J = TypeVar("J", bound=DataJob)


@dataclass(frozen=True)
class Kind(Generic[J, R]):
    """What a command makes of rows."""

    name: str
    """Of what it makes: labels."""
    command: str
    """label, in messages doing and done as well: labelling, labelled."""
    doing: str
    done: str
    job: type[J]
    record: type[R]
    about: str
    """What the tables hold, for the page beside them."""


LABELS = Kind(
    "labels",
    "label",
    "labelling",
    "labelled",
    LabelJob,
    LabelRow,
    "Labels written by `keepset label`: which blocks of each context the answer depends on. `manifest.json` says of\n"
    "which data, by which model and how.\n",
)
TEXTS = Kind(
    "texts",
    "compress",
    "compressing",
    "compressed",
    CompressJob,
    CompressedRow,
    "Texts made short by `keepset compress`. `manifest.json` says which, and how far.\n",
)

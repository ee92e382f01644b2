"""Texts made short, row by row; ``StartCompressing`` is that as work for a pool.

A text is read by itself, so the group it is done with changes nothing.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from keepset.compression import Compressor
from keepset.jobs.outcome import MODEL_FAILURES, GroupDone, Outcome, Record, Reject, model_failed, reject
from keepset.jobs.plan import RowGroup
from keepset.jobs.pool import WorkerLost, own_device
from keepset.models.fingerprint import fingerprint
from keepset.pruning.budget import Budget
from keepset.routers.text import TextRouter
from keepset.text.jsonl import Line, parse_document


class CompressedRow(Record):
    """What is left of one text; ``docs/compress.md`` shows the columns as they are declared here."""

    text: str
    """The sentences that were kept, whole and in order."""
    kept: list[list[int]]
    """Characters of the original text, for citing: first, and one after the last, of each piece."""
    tokens_before: int
    """Of the original text, as the reader counts."""
    tokens_after: int
    """Of what was kept."""


class CompressorIdentity(NamedTuple):
    """What must be the same in every worker."""

    reader_fingerprint: str
    """Of config, tokenizer and a sample of every weight."""
    router_fingerprint: str


class CompressWorker:
    """Compresses one group after the other."""

    def __init__(
        self, compressor: Compressor, budget: Budget, question: str | None, columns: Mapping[str, str]
    ) -> None:
        self.compressor = compressor
        self.budget = budget
        self.question = question
        self.columns = columns
        self.identity = CompressorIdentity(fingerprint(*compressor.loaded), router_fingerprint(compressor.router))

    def __call__(self, group: RowGroup) -> GroupDone[CompressedRow]:
        started = time.monotonic()
        try:
            found = [self.compress(line) for line in group.lines]
        except torch.AcceleratorError as error:
            raise WorkerLost(f"the device is gone: {error}") from error
        records = [outcome for outcome in found if isinstance(outcome, CompressedRow)]
        rejects = [outcome for outcome in found if isinstance(outcome, Reject)]
        spent = {"tokens": sum(record.tokens_before for record in records)}
        return GroupDone(Outcome(records, rejects), spent, time.monotonic() - started)

    def compress(self, line: Line) -> CompressedRow | Reject:
        try:
            document = parse_document(line, self.columns)
        except ValueError as error:
            return reject(line, str(error))
        try:
            short = self.compressor.compress(document.text, self.budget, self.question)
        except torch.AcceleratorError:
            raise  # a lost device fails every text after this one too
        except MODEL_FAILURES as error:
            return model_failed(line, error)
        return CompressedRow(
            id=document.id,
            line=line.number,
            text=short.text,
            kept=[[start, stop] for start, stop in short.kept],
            tokens_before=short.tokens_before,
            tokens_after=short.tokens_after,
        )


@dataclass(frozen=True)
class StartCompressing:
    """Makes a ``CompressWorker``, wherever it is called."""

    router: TextRouter
    reader: str | None
    budget: Budget
    question: str | None
    columns: Mapping[str, str]
    device: str

    def __call__(self, number: int) -> CompressWorker:
        device = own_device(self.device, number, torch.cuda.device_count())
        compressor = Compressor(self.router, self.reader, device)
        return CompressWorker(compressor, self.budget, self.question, self.columns)


def router_fingerprint(router: TextRouter) -> str:
    digest = hashlib.sha256()
    for name, weight in router.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.cpu().contiguous().numpy().tobytes())
    return hashlib.sha256(router.config(digest.hexdigest()).model_dump_json().encode()).hexdigest()

"""Train a router on labels: ``keepset.train`` and ``keepset train``.

router = keepset.train("labels/", regime="pre_query", target="causal")
router.save_pretrained("router/")

             pre_query: one example per document             query_aware: one per question
causal       union of its questions' evidence sets           the question's evidence set
imitation    attention the document pays itself (H2O's)      attention of the answer row (the label's column)
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.jobs.labelling import LabelRow
from keepset.jobs.manifest import Manifest, read_manifest
from keepset.jobs.tables import read_rows
from keepset.labels.evidence import Case
from keepset.models.fingerprint import weights_fingerprint
from keepset.models.loading import load_model
from keepset.routers.block import BlockRouter, ReadModel, Regime, find_regime, find_target
from keepset.routers.block_training import STEPS, train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.features import early_layers
from keepset.routers.targets import acceptable_sets
from keepset.routers.trained_blocks import TrainedBlocks, find_blocks

ESTIMATE_AFTER = 2.0
"""Seconds of work that tell how long the rest will take."""

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


@dataclass(frozen=True)
class LabelledQuestion:
    """A question the model answers, with what its answer depends on."""

    tokens: Tensor
    """(Q,) everything after the document."""
    evidence: Tensor
    """(N,) bool"""
    alternatives: bool
    """Each block of the evidence is enough alone; otherwise all are needed."""
    attention: Tensor
    """(N,) of the answer row."""


@dataclass(frozen=True)
class LabelledDocument:
    """A context with all its labelled questions."""

    tokens: Tensor
    """(T,) up to the question."""
    blocks: tuple[Span, ...]
    own_blocks: bool
    """It brought its blocks; otherwise it was cut by the job's rule."""
    questions: list[LabelledQuestion] = field(default_factory=list)


def train(
    labels: str | Path,
    model: str | Path | PreTrainedModel | Loaded | None = None,
    regime: str = "pre_query",
    target: str = "causal",
    steps: int = STEPS,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> BlockRouter:
    """A router trained on a folder written by ``keepset label``, for the model that made the labels.

    ``model`` is loaded by the name in the labels unless it is given (loaded already, or as ``load_model`` takes it).
    ``regime`` is pre_query (the router never sees a question: it keeps what any of a document's questions needs) or
    query_aware. ``target`` is causal (evidence sets) or imitation (attention).
    """
    seen, learned = find_regime(regime), find_target(target)
    if steps < 1:
        raise ValueError(f"steps: expected at least 1, got {steps}")
    folder, watch = Path(labels), Watch()
    manifest = check_labels(folder)
    documents = read_documents(folder, manifest)
    watch.say(_summary(folder, manifest, documents))
    loaded = _load(model, manifest, folder, device)
    layers = early_layers(loaded)
    examples = list(router_examples(documents, seen))
    with watch.phase(f"reading {len(examples):,} examples with {layers} layers of the model", len(examples)) as advance:
        features, targets = read_examples(loaded, examples, [learned], layers, advance)
    blocks = blocks_of(documents, manifest)
    with watch.phase(f"training {steps:,} steps", steps) as advance:
        trained = train_block_routers(
            ReadModel.of(loaded), seen, layers, blocks, features, targets, [seed], steps, advance
        )
    return trained[learned][0]


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


def read_documents(folder: Path, manifest: Manifest) -> list[LabelledDocument]:
    """Every document with a question that teaches a router something."""
    documents: dict[tuple[Any, ...], LabelledDocument] = {}
    rows = 0
    for shard in manifest.shards:
        for row in read_rows(folder / shard.file):
            rows += 1
            if not teaches(row):
                continue
            spans = tuple(map(Span, row.token_start, row.token_stop))
            tokens, question = row.tokens[: row.document_tokens], row.tokens[row.document_tokens :]
            key = (spans, *tokens)  # the same context: the same tokens, cut in the same way
            document = documents.setdefault(key, LabelledDocument(torch.tensor(tokens), spans, row.own_blocks))
            evidence = torch.zeros(len(spans), dtype=torch.bool)
            evidence[row.evidence] = True
            document.questions.append(
                LabelledQuestion(
                    tokens=torch.tensor(question),
                    evidence=evidence,
                    alternatives=row.case == Case.ALTERNATIVES,
                    attention=torch.tensor(row.attention),
                )
            )
    if not documents:
        raise ValueError(
            f"{folder}: expected rows that the model answers and that have evidence, got 0 of {rows}; "
            "label data the model can answer from some blocks only, or give the rows (more) candidates to choose from"
        )
    return list(documents.values())


def teaches(row: LabelRow) -> bool:
    """The model answers, and from some blocks only: where each block alone is enough, it answers from none of them."""
    from_any = row.case == Case.ALTERNATIVES and len(row.evidence) == row.n_blocks > 1
    return bool(row.clean_correct and row.evidence and not from_any)


def blocks_of(documents: Sequence[LabelledDocument], manifest: Manifest) -> TrainedBlocks:
    """How the documents were cut: by the job's rule, unless some brought their blocks."""
    return "own" if any(document.own_blocks for document in documents) else find_blocks(manifest.job.blocks)


def _load(
    model: str | Path | PreTrainedModel | Loaded | None, manifest: Manifest, folder: Path, device: str | torch.device
) -> PreTrainedModel:
    """The model, which must be the one that made the labels."""
    job = manifest.job
    name: str | Path = job.model
    if isinstance(model, PreTrainedModel):
        name, found = model.config._name_or_path or type(model).__name__, model
    elif isinstance(model, tuple):
        name, found = model[0].config._name_or_path or type(model[0]).__name__, model[0]
    else:
        name = job.model if model is None else model
        found, _ = load_model(name, dtype=job.dtype, device=device)
    fingerprint = weights_fingerprint(found)
    if fingerprint != job.weights_fingerprint:
        raise ValueError(
            f"{folder}: expected the model that made these labels, {job.model} (weights {job.weights_fingerprint[:8]}, "
            f"{job.dtype}), got {name} (weights {fingerprint[:8]}); labels say what one model's answers depend on: "
            "train for that model, or label again with this one"
        )
    return found


def router_examples(documents: Iterable[LabelledDocument], regime: Regime) -> Iterator[RouterExample]:
    """What a router learns from at once: a document with all its questions, or with one of them."""
    for document in documents:
        if regime == "pre_query":
            needed = torch.stack([question.evidence for question in document.questions]).any(0)
            yield RouterExample(document.tokens, document.blocks, needed[None])
            continue
        for question in document.questions:
            sets = acceptable_sets(question.evidence[None], torch.tensor([question.alternatives]))[0]
            yield RouterExample(document.tokens, document.blocks, sets, question.tokens, question.attention)


def _summary(folder: Path, manifest: Manifest, documents: Sequence[LabelledDocument]) -> str:
    labelled = sum(shard.labelled for shard in manifest.shards)
    done = labelled + sum(shard.rejected for shard in manifest.shards)
    usable = sum(len(document.questions) for document in documents)
    unfinished = f"; {manifest.rows - done:,} rows are not labelled yet" if done < manifest.rows else ""
    return (
        f"{folder}: rows {labelled:,}, answered and with evidence {usable:,}, documents {len(documents):,}{unfinished}"
    )


class Watch:
    """What is done, and how long it will take: a bar on a terminal, elsewhere the estimate alone."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def phase(self, text: str, total: int) -> Iterator[Callable[[], None]]:
        """``total`` equal parts of work; gives what says that one of them is done."""
        columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        started, done, estimated = time.monotonic(), 0, False
        with Progress(*columns, console=self._console, disable=not self._console.is_terminal) as progress:
            task = progress.add_task("", total=total)

            def advance() -> None:
                nonlocal done, estimated
                done += 1
                progress.advance(task)
                seconds = time.monotonic() - started
                if not estimated and seconds > ESTIMATE_AFTER:
                    estimated = True
                    self.say(f"{text}: about {seconds / done * (total - done) / 60:.1f} minutes")

            yield advance

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
from keepset.files import as_path
from keepset.jobs.held_out import HeldOut, HeldOutQuestion, held_out, warnings
from keepset.jobs.labelling import LabelRow
from keepset.jobs.stored import LabelManifest, check_labels, stored_rows
from keepset.labels.evidence import Case
from keepset.labels.support import RULE
from keepset.models.fingerprint import weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.naming import check_named_model
from keepset.routers.block import BlockRouter, ReadModel, Regime, Target, find_regime, find_target, score_features
from keepset.routers.block_training import STEPS, train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.features import early_layers
from keepset.routers.targets import acceptable_sets
from keepset.routers.trained_blocks import TrainedBlocks, find_blocks
from keepset.terminal import print_line

TARGETS = ("causal", "imitation")
"""What labels say of a block; the laboratory's routers learn others too."""

ESTIMATE_AFTER = 2.0
"""Seconds of work that tell how long the rest will take."""

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


@dataclass(frozen=True)
class LabelledQuestion:
    """A question with what its answer depends on."""

    tokens: Tensor
    """(Q,) everything after the document."""
    evidence: Tensor
    """(N,) bool"""
    alternatives: bool
    """Each block of the evidence is enough alone; otherwise all are needed."""
    attention: Tensor
    """(N,) of the answer row."""

    @property
    def sets(self) -> Tensor:
        """(S, N) bool: sets of blocks, any one of which is enough."""
        return acceptable_sets(self.evidence[None], torch.tensor([self.alternatives]))[0]


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

    Says on standard error how much evidence a router trained on four fifths of the documents finds in the others.
    """
    seen = find_regime(regime)
    if target not in TARGETS:
        raise ValueError(f"target: expected one of {', '.join(TARGETS)}, got {target!r}")
    learned = find_target(target)
    if steps < 1:
        raise ValueError(f"steps: expected at least 1, got {steps}")
    folder, watch = as_path("labels", labels), Watch()
    manifest = check_labels(folder)
    if model is None:
        model = check_named_model(manifest.job.model, folder)
    documents = read_documents(folder, manifest)
    watch.say(_summary(folder, manifest, documents))
    loaded = _load(model, manifest, folder, device)
    layers = early_layers(loaded)
    examples = [list(router_examples([document], seen)) for document in documents]
    n_examples = sum(map(len, examples))
    with watch.phase(f"reading {n_examples:,} examples with {layers} layers of the model", n_examples) as advance:
        read = [read_examples(loaded, some, [learned], layers, advance) for some in examples]
    blocks = blocks_of(documents, manifest)

    def trained_on(numbers: Iterable[int], each_step: Callable[[], None]) -> BlockRouter:
        chosen = [read[i] for i in numbers]
        features = [one for some, _ in chosen for one in some]
        targets: dict[Target, list[Tensor]] = {learned: [one for _, some in chosen for one in some[learned]]}
        reads = ReadModel.of(loaded)
        return train_block_routers(reads, seen, layers, blocks, features, targets, [seed], steps, each_step)[learned][0]

    unseen = held_out(len(documents))
    twice = "twice, first without every fifth document, " if unseen else ""
    with watch.phase(f"training {twice}{steps:,} steps", steps * (1 + bool(unseen))) as advance:
        found = None
        if unseen:
            router = trained_on((i for i in range(len(documents)) if i not in unseen), advance)
            questions = [q for i in unseen for q in held_out_questions(router, documents[i], read[i][0])]
            found = HeldOut(len(unseen), tuple(questions))
        router = trained_on(range(len(documents)), advance)
    for line in [*([found.line()] if found else []), *warnings(len(documents), found)]:
        watch.say(line)
    return router


def held_out_questions(
    router: BlockRouter, document: LabelledDocument, features: Sequence[Tensor]
) -> Iterator[HeldOutQuestion]:
    """The questions of a document as ``router`` does on them; ``features`` are the document's, or its questions'."""
    scores = [score_features(router, read[None]) for read in features]
    for i, question in enumerate(document.questions):
        yield HeldOutQuestion(scores[i if router.asks else 0], question.sets)


def read_documents(folder: Path, manifest: LabelManifest) -> list[LabelledDocument]:
    """Every document with a question that teaches a router something."""
    documents: dict[tuple[Any, ...], LabelledDocument] = {}
    rows = 0
    for row in stored_rows(folder, manifest):
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
            f"{folder}: expected rows whose answer rests on some blocks and not on others, got 0 of {rows}; "
            "label data whose answers stand in the contexts, or give the rows more candidates to choose from"
        )
    return list(documents.values())


def teaches(row: LabelRow) -> bool:
    """The answer rests on some blocks only: where each block alone is enough, the model answers from none of them.

    By the paper's rule the model must answer too; by that of worth, the text supports the answer however it is worded.
    """
    from_any = row.case == Case.ALTERNATIVES and len(row.evidence) == row.n_blocks > 1
    counts = row.rule == RULE or row.clean_correct
    return bool(counts and row.evidence and not from_any)


def blocks_of(documents: Sequence[LabelledDocument], manifest: LabelManifest) -> TrainedBlocks:
    """How the documents were cut: by the job's rule, unless some brought their blocks."""
    return "own" if any(document.own_blocks for document in documents) else find_blocks(manifest.job.blocks)


def _load(
    model: str | Path | PreTrainedModel | Loaded, manifest: LabelManifest, folder: Path, device: str | torch.device
) -> PreTrainedModel:
    """The model, which must be the one that made the labels."""
    job = manifest.job
    name: str | Path
    if isinstance(model, PreTrainedModel):
        name, found = model.config._name_or_path or type(model).__name__, model
    elif isinstance(model, tuple):
        name, found = model[0].config._name_or_path or type(model[0]).__name__, model[0]
    else:
        name = model
        found, _ = load_model(name, dtype=job.dtype, device=device, quantize=job.quantize)
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
            yield RouterExample(document.tokens, document.blocks, question.sets, question.tokens, question.attention)


def _summary(folder: Path, manifest: LabelManifest, documents: Sequence[LabelledDocument]) -> str:
    labelled = sum(shard.records for shard in manifest.shards)
    done = labelled + sum(shard.rejected for shard in manifest.shards)
    usable = sum(len(document.questions) for document in documents)
    unfinished = f"; {manifest.rows - done:,} rows are not labelled yet" if done < manifest.rows else ""
    return f"{folder}: rows {labelled:,}, with evidence {usable:,}, documents {len(documents):,}{unfinished}"


class Watch:
    """What is done, and how long it will take: a bar on a terminal, elsewhere the estimate alone."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    def say(self, text: str) -> None:
        print_line(self._console, text)

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

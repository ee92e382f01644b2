"""Labels of some lines: ``label_rows`` needs nothing but a model, and touches nothing but its arguments.

``StartLabelling`` is the same as work for a pool: it loads the model in each worker, and labels one group at a time.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Example
from keepset.interventions import Ask, Fast
from keepset.jobs.outcome import MODEL_FAILURES, GroupDone, Outcome, Record, Reject, model_failed, reject
from keepset.jobs.plan import RowGroup
from keepset.jobs.pool import WorkerLost, own_device
from keepset.jobs.rules import Basis, paper_bases, scorer_of, worth_basis
from keepset.labels.support import SupportEffort
from keepset.models.fingerprint import fingerprint, weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.quantize import Quantize, quantization
from keepset.readouts import answer_attention, pool_attention
from keepset.text.example import TextExample
from keepset.text.jsonl import Line, Row, parse_row, row_example
from keepset.text.prompt import check_tokenizer
from keepset.text.split import split_blocks

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


class LabelRow(Record):
    """The labels of one row. Lists have one entry per block unless said otherwise.

    The one declaration of the columns: the tables' schema, what is read back and the page about labels follow it.
    """

    question: str
    """As given."""
    answer: str
    """As given."""
    candidates: list[str]
    """Answers to choose from; may be empty."""
    n_blocks: int
    """How many blocks the context has."""
    own_blocks: bool
    """The row brought its blocks; otherwise its context was cut by the job's rule."""
    blocks: list[str]
    """What each block says, with the white space after it."""
    char_start: list[int]
    """First character of the block in the context."""
    char_stop: list[int]
    """Character after the block."""
    tokens: list[int]
    """Token ids of the whole prompt, up to the answer."""
    document_tokens: int
    """How many of ``tokens`` come before the question: the same number as when the context is pruned without one."""
    token_start: list[int]
    """First token of the block in ``tokens``."""
    token_stop: list[int]
    """Token after the block."""
    rule: str
    """How evidence was found: worth (rows without candidates) or paper (rows with candidates)."""
    clean_correct: bool
    """With every block visible the answer is the most likely candidate; without candidates, each of its tokens is the
    most likely one."""
    clean_log_prob: float
    """Log-probability of the answer with every block visible, in nats."""
    worth: float
    """Nats the whole context adds to the answer, over the tokens it speaks to; 0 under the paper's rule."""
    drop: list[float]
    """Nats the answer loses when the block is hidden; negative where hiding helps. Under worth, with a cheaper effort
    than exact, up to the last token the context speaks to."""
    flip: list[bool]
    """The answer is given, and no longer when the block is hidden."""
    sufficient: list[bool]
    """The answer is given with this block alone."""
    measured: list[bool]
    """The block was hidden in a forward of its own; where not, drop 0 and no flip: a cheaper effort concluded that, or
    did not ask."""
    evidence: list[int]
    """Numbers of the blocks in the evidence set, ``others`` among them."""
    others: list[int]
    """Blocks of the evidence that say it too, beside the one that says it best; none under the paper's rule."""
    case: str
    """alternatives (each block of the evidence is enough alone), necessary (none is; each is needed)
    or empty."""
    attention: list[float]
    """Attention the answer row pays to the block; mean over heads and layers."""
    cost: int
    """Tokens run through the model for this row (paper: its share of its group's), and one forward for attention."""


class Labeller:
    """A model and what to ask of it."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        blocks: str | int,
        effort: SupportEffort = "evidence",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.blocks = blocks
        self.effort: SupportEffort = effort
        self.columns = columns
        self.executor = Fast(model)

    def prepare(self, line: Line) -> "Prepared":
        """A row as an example that the model can read. ValueError says why it is none."""
        row = parse_row(line, self.columns)
        example = row_example(row, self.tokenizer, self.blocks)
        scorer = scorer_of(example)
        scorer.check(example)
        self.executor.check(Ask(example, frozenset(), scorer.continuations(example)))
        return Prepared(line, row, example)

    def label(self, rows: Sequence["Prepared"]) -> list[LabelRow | Reject]:
        """One outcome per row; those by the paper's rule are computed together."""
        choices = [row for row in rows if row.example.candidates]
        outcomes = {row.line.number: found for row, found in zip(choices, self._by_paper(choices), strict=True)}
        for row in rows:
            if not row.example.candidates:
                before = self.executor.cost.copy()
                basis = worth_basis(row.example, self.executor, self.effort)
                outcomes[row.line.number] = self._outcome(row, basis, self.executor.cost.since(before).tokens)
        return [outcomes[row.line.number] for row in rows]

    def _by_paper(self, rows: Sequence["Prepared"]) -> list[LabelRow | Reject]:
        if not rows:
            return []
        before = self.executor.cost.copy()
        bases = paper_bases([row.example for row in rows], self.executor, self.effort)
        spent = self.executor.cost.since(before).tokens / sum(row.weight for row in rows)
        return [self._outcome(row, basis, round(spent * row.weight)) for row, basis in zip(rows, bases, strict=True)]

    def _outcome(self, row: "Prepared", basis: Basis, tokens: int) -> LabelRow | Reject:
        """``tokens`` is what finding the basis cost."""
        attention = self._attention(row.example)
        if not all(map(math.isfinite, (basis.clean_log_prob, basis.worth, *basis.drop, *attention))):
            return reject(row.line, "model: expected finite numbers, got NaN or infinity")
        return LabelRow(
            id=row.row.id,
            line=row.line.number,
            question=row.row.question,
            answer=row.row.answer,
            candidates=list(row.row.candidates),
            n_blocks=len(row.example.blocks),
            own_blocks=row.row.own_blocks is not None,
            blocks=list(row.example.block_texts),
            char_start=[start for start, _ in row.example.places],
            char_stop=[stop for _, stop in row.example.places],
            tokens=row.example.tokens.tolist(),
            document_tokens=row.example.query.start,
            token_start=[span.start for span in row.example.blocks],
            token_stop=[span.stop for span in row.example.blocks],
            attention=attention,
            cost=tokens + len(row.example.tokens),
            **vars(basis),
        )

    def _attention(self, example: Example) -> list[float]:
        by_head = answer_attention(self.model, example.tokens[None], example.blocks)  # (1, L, H, N)
        scores: list[float] = pool_attention(by_head, heads="mean")[0].tolist()
        return scores


@dataclass(frozen=True)
class Prepared:
    """A row that is ready to be labelled."""

    line: Line
    row: Row
    example: TextExample

    @property
    def weight(self) -> int:
        """What labelling the row costs, in proportion: its blocks are hidden one by one."""
        return len(self.example.tokens) * (len(self.example.blocks) + 1)


def label_rows(rows: Iterable[Line], labeller: Labeller) -> Outcome[LabelRow]:
    """Labels of the rows that have them, and the others with the reason. A bad row harms no other."""
    ready: list[Prepared] = []
    found: list[LabelRow | Reject] = []
    for line in rows:
        try:
            ready.append(labeller.prepare(line))
        except ValueError as error:
            found.append(reject(line, str(error)))
    found += _label_together(ready, labeller)
    records = [outcome for outcome in found if isinstance(outcome, LabelRow)]
    rejects = [outcome for outcome in found if isinstance(outcome, Reject)]
    return Outcome(records, sorted(rejects, key=lambda found: found.line))


def _label_together(rows: Sequence[Prepared], labeller: Labeller) -> list[LabelRow | Reject]:
    """All at once; where that fails, one by one, so that only the row that fails is lost."""
    if not rows:
        return []
    try:
        return labeller.label(rows)
    except torch.AcceleratorError:
        raise  # a lost device fails every row after this one too
    except MODEL_FAILURES as error:
        if len(rows) == 1:
            return [model_failed(rows[0].line, error)]
    return [outcome for row in rows for outcome in _label_together([row], labeller)]


class ModelIdentity(NamedTuple):
    """What must be the same in every worker."""

    model_fingerprint: str
    """Of config, tokenizer and a sample of every weight."""
    weights_fingerprint: str
    dtype: str
    quantize: Quantize | None


class LabelWorker:
    """Labels one group after the other."""

    def __init__(self, labeller: Labeller) -> None:
        self.labeller = labeller
        model, tokenizer = labeller.model, labeller.tokenizer
        dtype = str(model.dtype).removeprefix("torch.")
        prints = fingerprint(model, tokenizer), weights_fingerprint(model)
        self.identity = ModelIdentity(*prints, dtype, quantization(model))

    def __call__(self, group: RowGroup) -> GroupDone[LabelRow]:
        started, before = time.monotonic(), self.labeller.executor.cost.copy()
        try:
            outcome = label_rows(group.lines, self.labeller)
        except torch.AcceleratorError as error:
            raise WorkerLost(f"the device is gone: {error}") from error
        cost = self.labeller.executor.cost.since(before)
        spent = {"keep sets": cost.views, "forwards": cost.forwards}
        return GroupDone(outcome, spent, time.monotonic() - started)


@dataclass(frozen=True)
class StartLabelling:
    """Makes a ``LabelWorker``, wherever it is called."""

    model: str | Path | Loaded
    blocks: str | int
    effort: SupportEffort
    columns: Mapping[str, str]
    device: str
    quantize: Quantize | None = None

    def __call__(self, number: int) -> LabelWorker:
        if isinstance(self.model, str | Path):
            device = own_device(self.device, number, torch.cuda.device_count())
            model, tokenizer = load_model(self.model, device=device, quantize=self.quantize)
        elif isinstance(self.model, tuple | list) and len(self.model) == 2:
            model, tokenizer = self.model
            check_tokenizer(tokenizer)
        else:
            raise ValueError(
                f"model: expected a name, a folder, or a model and its tokenizer, got {type(self.model).__name__}"
            )
        split_blocks("", self.blocks, tokenizer)  # a wrong rule would reject every row
        return LabelWorker(Labeller(model, tokenizer, self.blocks, self.effort, self.columns))


def model_name(model: str | Path | Loaded) -> str:
    if isinstance(model, str | Path):
        return str(model)
    return str(model[0].config._name_or_path or type(model[0]).__name__)

"""Labels of some lines: ``label_rows`` needs nothing but a model, and touches nothing but its arguments.

``StartLabelling`` is the same as work for a pool: it loads the model in each worker, and labels one group at a time.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.interventions import Ask, Executor, Fast
from keepset.jobs.outcome import MODEL_FAILURES, GroupDone, Outcome, Record, Reject, model_failed, reject
from keepset.jobs.plan import RowGroup
from keepset.jobs.pool import WorkerLost, own_device
from keepset.jobs.rules import Basis, paper_bases, scorer_of, worth_bases
from keepset.labels.support import SupportEffort
from keepset.models.fingerprint import fingerprint, weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.quantize import Quantize, quantization
from keepset.readouts import answer_attention, pool_attention, shared_layers
from keepset.readouts.layers import visit_layers
from keepset.text.example import TextExample
from keepset.text.jsonl import Line, Row, parse_row, row_example
from keepset.text.prompt import check_tokenizer
from keepset.text.split import split_blocks

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
FindBases = Callable[[Sequence[TextExample], Executor, SupportEffort], list[Basis]]

SHARED_TOKENS = 4_096
"""Of a context whose layers are held while its rows are read: a gigabyte of a 1.5B model. Longer ones are read anew."""


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
    """Tokens run through the model for this row, attention included; of what was run for several rows, its share."""


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
        self.executor.check(Ask(example, frozenset(), scorer.continuations(example)))
        return Prepared(line, row, example)

    def label(self, rows: Sequence["Prepared"]) -> list[LabelRow | Reject]:
        """One outcome per row; computed together are those by the paper's rule, and those that share a context."""
        choices = [row for row in rows if row.example.candidates]
        free = [row for row in rows if not row.example.candidates]
        found = self._together(choices, paper_bases)
        for about_one in by_context(free):
            found |= self._together(about_one, worth_bases)
        return [found[row.line.number] for row in rows]

    def _together(self, rows: Sequence["Prepared"], find: FindBases) -> dict[int, LabelRow | Reject]:
        """Line number -> outcome."""
        if not rows:
            return {}
        before = self.executor.cost.copy()
        bases = find([row.example for row in rows], self.executor, self.effort)
        spent = self.executor.cost.since(before).tokens / sum(row.weight for row in rows)
        attended = self._attention(rows)
        return {
            row.line.number: self._outcome(row, basis, attended[row.line.number], spent * row.weight)
            for row, basis in zip(rows, bases, strict=True)
        }

    def _outcome(self, row: "Prepared", basis: Basis, attended: "Attended", tokens: float) -> LabelRow | Reject:
        """``tokens`` is what finding the basis cost."""
        attention = attended.scores
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
            cost=round(tokens + attended.tokens),
            **vars(basis),
        )

    def _attention(self, rows: Sequence["Prepared"]) -> dict[int, "Attended"]:
        """Line number -> what the answer row looks at; a context of several rows is read once."""
        found: dict[int, Attended] = {}
        for about_one in by_context(rows):
            context = about_one[0].context
            again = 0.0 if len(about_one) > 1 and len(context) <= SHARED_TOKENS else 1.0
            with nullcontext() if again else shared_layers():
                if not again:
                    visit_layers(self.model, context[None], lambda layer: None)  # the questions go on from there
                for row in about_one:
                    by_head = answer_attention(self.model, row.example.tokens[None], row.example.blocks)  # (1, L, H, N)
                    tokens = len(row.example.query) + len(context) * (again or 1 / len(about_one))
                    found[row.line.number] = Attended(pool_attention(by_head, heads="mean")[0].tolist(), tokens)
        return found


class Attended(NamedTuple):
    """What the answer row of a row pays to each block."""

    scores: list[float]
    tokens: float
    """Run through the model for it."""


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

    @property
    def context(self) -> Tensor:
        """(T,) what comes before the question."""
        return self.example.tokens[: self.example.query.start]


def by_context(rows: Sequence[Prepared]) -> list[list[Prepared]]:
    """Rows that ask about the same text, cut in the same way."""
    found: dict[object, list[Prepared]] = {}
    for row in rows:
        found.setdefault((row.example.blocks, *row.context.tolist()), []).append(row)
    return list(found.values())


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

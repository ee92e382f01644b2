"""Preservation: does the model still answer a question when only a budget of the document's blocks is kept?

    reader = Reader(model, tokenizer, document)             # one dense prefill
    if reader.answers(question, everything, "post_prefill"):
        reader.answers(question, keep, "global")            # the kept blocks alone were ever read
        reader.answers(question, keep, "post_prefill")      # everything was read, then the rest dropped

An answer counts when every token of it is the most likely one after the true ones before it. Where the order of an
answer is free (``generated``), the model's own greedy continuation has to contain every part of it.
"""

from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.evaluation.statistics import proportion
from keepset.interventions import Probe, Reference, TeacherForced
from keepset.pruning.cache import EvictionMode, KeptCache, generate, kept_positions, narrowed, prefill_kept, read_after
from keepset.results import Metric
from keepset.tasks.document import Document, Question

SPARE_TOKENS = 8
"""What a generated answer may be longer than the written one: other separators, an 'and'."""


@dataclass(eq=False)
class Reader:
    """A document on a model: questions after any keep set, in either mode."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    document: Document
    generated: bool = False
    """Judge by greedy generation instead of teacher-forced tokens."""
    _dense: KeptCache = field(init=False)
    _caches: dict[tuple[KeepSet, EvictionMode], KeptCache] = field(init=False, default_factory=dict)
    _answers: dict[tuple[int, KeepSet, EvictionMode], bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        tokens = self.document.tokens
        (self._dense,) = prefill_kept(self.model, [(tokens, torch.arange(len(tokens)))], "post_prefill")

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.document.blocks)))

    def answers(self, asked: int, keep: KeepSet, mode: EvictionMode) -> bool:
        """Question number ``asked`` is answered when only ``keep`` is left; policies that agree share the work."""
        key = (asked, keep, mode)
        if key not in self._answers:
            self._answers[key] = self._read(self.document.questions[asked], self._cache(keep, mode))
        return self._answers[key]

    def _cache(self, keep: KeepSet, mode: EvictionMode) -> KeptCache:
        if keep == self.everything:
            return self._dense
        positions = kept_positions(len(self.document.tokens), self.document.blocks, keep)
        if mode == "post_prefill":
            return narrowed(self._dense, positions)
        if (keep, mode) not in self._caches:
            (self._caches[keep, mode],) = prefill_kept(self.model, [(self.document.tokens, positions)], mode)
        return self._caches[keep, mode]

    def _read(self, question: Question, cache: KeptCache) -> bool:
        query = question.tokens[question.query.start : question.query.stop]
        if self.generated:
            stop = frozenset({self.tokenizer.eos_token_id})
            written = generate(self.model, cache, query, len(question.answer) + SPARE_TOKENS, stop)
            text = self.tokenizer.decode(list(written))
            return all(part in text for part in question.answers)
        answer = torch.tensor(question.answer)
        logits, _ = read_after(self.model, cache, torch.cat([query, answer[:-1]]), rows=len(answer))
        return bool((logits.argmax(-1) == answer).all())


@dataclass
class Tally:
    """What one policy did at one budget, over the questions the model answers with everything visible."""

    preserved_kept: int = 0
    """Answered, and the question's evidence was kept."""
    preserved_dropped: int = 0
    """Answered, although some of its evidence was dropped."""
    kept: int = 0
    dropped: int = 0

    def add(self, preserved: bool, kept: bool) -> None:
        if kept:
            self.kept += 1
            self.preserved_kept += preserved
        else:
            self.dropped += 1
            self.preserved_dropped += preserved

    def metrics(self, name: str) -> list[Metric]:
        """Share preserved; share whose evidence was kept; share preserved of either kind. None where n is 0."""
        counts = {
            "preserved": (self.preserved_kept + self.preserved_dropped, self.kept + self.dropped),
            "evidence_kept": (self.kept, self.kept + self.dropped),
            "preserved_given_kept": (self.preserved_kept, self.kept),
            "preserved_given_dropped": (self.preserved_dropped, self.dropped),
        }
        return [proportion(f"{name}/{what}", right, n) for what, (right, n) in counts.items() if n]


def answers_masked(model: PreTrainedModel, question: Question, keep: KeepSet) -> bool:
    """The same judgement (teacher-forced) under the paper's mask operator with every token computed: the reference."""
    (score,) = Probe([question], Reference(model), TeacherForced()).score([(0, keep)])
    return score.correct

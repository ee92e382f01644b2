"""Preservation: does the model still answer a question when only a budget of the document's blocks is kept?

    reader = Reader(model, tokenizer, document)             # one dense prefill
    if reader.answers(question, everything, "post_prefill"):
        reader.answers(question, keep, "global")            # the kept blocks alone were ever read
        reader.answers(question, keep, "post_prefill")      # everything was read, then the rest dropped

An answer counts when every token of it is the most likely one after the true ones before it. Where the order of an
answer is free (``generated``), the model's own greedy continuation has to contain every part of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions import Probe, Reference, TeacherForced
from keepset.models.cache import KeysValues
from keepset.models.endings import turn_ends
from keepset.pruning.cache import (
    EvictionMode,
    KeptCache,
    generate_each,
    kept_positions,
    narrowed,
    prefill_kept,
    read_after_each,
)
from keepset.readouts.layers import Layer, visit_layers
from keepset.text.document import Document, Question

SPARE_TOKENS = 16
"""What a generated answer may be longer than the written one: "VAR" before each name, commas, an "and". RULER has 30 in
all for five names; ours take 15 to 18."""


BATCH = 16
"""Keep sets read in one forward: a question is short, so reading the weights is most of what one costs."""


@dataclass(eq=False)
class Reader:
    """A document on a model: questions after any keep set, in either mode.

    Inside ``shared_layers`` its dense prefill is the forward that readouts of the document use.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    document: Document
    generated: bool = False
    """Judge by greedy generation instead of teacher-forced tokens."""
    _dense: KeptCache = field(init=False)
    _caches: dict[tuple[KeepSet, EvictionMode], KeptCache] = field(init=False, default_factory=dict)
    _answers: dict[tuple[int, KeepSet, EvictionMode], bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        tokens, layers = self.document.tokens, list[Layer]()
        visit_layers(self.model, tokens[None], layers.append)
        whole = KeysValues([layer.key for layer in layers], [layer.value for layer in layers])
        self._dense = KeptCache(whole, torch.arange(len(tokens)), len(tokens))

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.document.blocks)))

    def answers(self, asked: int, keep: KeepSet, mode: EvictionMode) -> bool:
        """Question number ``asked`` is answered when only ``keep`` is left; policies that agree share the work."""
        self.read(asked, [keep], mode)
        return self._answers[asked, keep, mode]

    def read(self, asked: int, keeps: Iterable[KeepSet], mode: EvictionMode) -> None:
        """Finds out for many keep sets together, so that asking for each afterwards costs nothing."""
        missing = [keep for keep in dict.fromkeys(keeps) if (asked, keep, mode) not in self._answers]
        sizes = {keep: len(kept_positions(len(self.document.tokens), self.document.blocks, keep)) for keep in missing}
        for size in sorted(set(sizes.values())):
            alike = [keep for keep in missing if sizes[keep] == size]
            for start in range(0, len(alike), BATCH):
                together = alike[start : start + BATCH]
                judged = self._judge(self.document.questions[asked], self._kept(together, mode))
                self._answers.update({(asked, keep, mode): right for keep, right in zip(together, judged, strict=True)})

    def _kept(self, keeps: list[KeepSet], mode: EvictionMode) -> list[KeptCache]:
        tokens, blocks = self.document.tokens, self.document.blocks
        positions = {keep: kept_positions(len(tokens), blocks, keep) for keep in keeps}
        if mode == "post_prefill" or keeps == [self.everything]:
            return [narrowed(self._dense, positions[keep]) for keep in keeps]
        missing = [keep for keep in keeps if (keep, mode) not in self._caches]
        if missing:
            found = prefill_kept(self.model, [(tokens, positions[keep]) for keep in missing], mode)
            self._caches.update({(keep, mode): cache for keep, cache in zip(missing, found, strict=True)})
        return [self._caches[keep, mode] for keep in keeps]

    def _judge(self, question: Question, caches: list[KeptCache]) -> list[bool]:
        query = question.tokens[question.query.start : question.query.stop]
        if self.generated:
            stop = turn_ends(self.model, self.tokenizer)
            written = generate_each(self.model, caches, query, len(question.answer) + SPARE_TOKENS, stop)
            texts = [self.tokenizer.decode(list(tokens)) for tokens in written]
            return [all(part in text for part in question.answers) for text in texts]
        answer = torch.tensor(question.answer)
        logits = read_after_each(self.model, caches, torch.cat([query, answer[:-1]]), rows=len(answer))
        return [bool((row.argmax(-1) == answer).all()) for row in logits]


def answers_masked(reference: Reference, question: Question, keep: KeepSet) -> bool:
    """The same judgement (teacher-forced) under the paper's mask operator with every token computed."""
    (score,) = Probe([question], reference, TeacherForced()).score([(0, keep)])
    return score.correct

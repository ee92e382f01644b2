"""Preservation: does the model still answer a question when only a budget of the document's blocks is kept?

    reader = Reader(model, tokenizer, document)             # one dense prefill
    if reader.answers(question, everything, "post_prefill"):
        reader.answers(question, keep, "global")            # the kept blocks alone were ever read
        reader.answers(question, keep, "post_prefill")      # everything was read, then the rest dropped
        reader.answers(question, keep, "text")              # the kept text alone, as another engine would read it

An answer counts when every token of it is the most likely one after the true ones before it. Where the order of an
answer is free (``generated``), the model's own greedy continuation has to contain every part of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions import Probe, Reference, TeacherForced
from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.models.cache import KeysValues
from keepset.models.endings import turn_ends
from keepset.models.masks import FILL
from keepset.pruning.cache import (
    EvictionMode,
    KeptCache,
    generate_each,
    kept_positions,
    narrowed,
    prefill_kept,
    read_after_each,
)
from keepset.pruning.report import kept_text
from keepset.readouts.layers import Layer, visit_layers
from keepset.text.document import Document, Question
from keepset.text.prompt import common_length, encode

SPARE_TOKENS = 16
"""What a generated answer may be longer than the written one: "VAR" before each name, commas, an "and". RULER has 30 in
all for five names; ours take 15 to 18."""


BATCH = 16
"""Keep sets read in one forward: a question is short, so reading the weights is most of what one costs."""


@dataclass(eq=False)
class Reader:
    """A document on a model: questions after any keep set, in any mode.

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
        if mode == "text":  # every text has a length of its own
            question = self.document.questions[asked]
            self._answers.update({(asked, keep, mode): self._judge_text(question, keep) for keep in missing})
            return
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

    def answers_without(self, asked: int, dropped: Sequence[Tensor]) -> bool:
        """After a dense prefill, with keys of each head let go: per layer (H, T) bool, True is gone."""
        with unread_keys(self.model, dropped):
            return self._judge(self.document.questions[asked], [self._dense])[0]

    def _judge_text(self, question: Question, keep: KeepSet) -> bool:
        """The prompt with the kept text in the place of the document; its question starts after the always visible."""
        text = "".join(question.block_texts)
        places = [0, *accumulate(map(len, question.block_texts))]
        dropped = [place for i, place in enumerate(pairwise(places)) if i not in keep]
        before, after = question.text.split(text)
        tokens = torch.tensor(encode(self.tokenizer, f"{before}{kept_text(text, dropped)}\n{after}")[0])
        end = common_length(encode(self.tokenizer, before)[0], tokens.tolist())
        (cache,) = prefill_kept(self.model, [(tokens[:end], torch.arange(end))], "text")
        return self._judge(question, [cache], tokens[end:])[0]

    def _judge(self, question: Question, caches: list[KeptCache], query: Tensor | None = None) -> list[bool]:
        """After each cache: ``query`` is what stands between it and the answer, the question's own by default."""
        if query is None:
            query = question.tokens[question.query.start : question.query.stop]
        if self.generated:
            stop = turn_ends(self.model, self.tokenizer)
            written = generate_each(self.model, caches, query, len(question.answer) + SPARE_TOKENS, stop)
            texts = [self.tokenizer.decode(list(tokens)) for tokens in written]
            return [all(part in text for part in question.answers) for text in texts]
        answer = torch.tensor(question.answer)
        logits = read_after_each(self.model, caches, torch.cat([query, answer[:-1]]), rows=len(answer))
        return [bool((row.argmax(-1) == answer).all()) for row in logits]


@contextmanager
def unread_keys(model: PreTrainedModel, dropped: Sequence[Tensor]) -> Iterator[None]:
    """Inside, nobody reads the keys that ``dropped`` names: per layer (H, T) bool, of the heads that hold keys."""

    def hide(call: AttentionCall) -> Attention:
        assert call.mask is not None, "reading after a cache passes one"
        heads = call.query.shape[1]
        gone = dropped[int(call.module.layer_idx)]  # type: ignore[arg-type]
        gone = gone.repeat_interleave(heads // len(gone), dim=0)[None, :, None]  # (1, H, 1, T)
        own = call.mask.expand(-1, heads, -1, -1).clone()
        own[..., : gone.shape[-1]].masked_fill_(gone, FILL)
        return replace(call, mask=own).attend()

    with wrapped_attention(model, hide):
        yield


def answers_masked(reference: Reference, question: Question, keep: KeepSet) -> bool:
    """The same judgement (teacher-forced) under the paper's mask operator with every token computed."""
    (score,) = Probe([question], reference, TeacherForced()).score([(0, keep)])
    return score.correct

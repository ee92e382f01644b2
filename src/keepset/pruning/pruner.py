"""The pruner: a document in, what a policy keeps of it out, before anybody has asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions.executors.base import check_model
from keepset.policies import find_policy
from keepset.policies.policy import Context, Policy, score_checked
from keepset.policies.routed import Routed
from keepset.pruning.budget import Budget, protected_blocks, select
from keepset.pruning.cache import (
    MAX_TOKENS,
    EvictionMode,
    KeptCache,
    check_room,
    kept_positions,
    narrowed,
    prefill_kept,
)
from keepset.pruning.context import PrunedContext
from keepset.pruning.report import BlockRecord, PruneRecord, kept_text
from keepset.readouts.layers import own_seconds
from keepset.routers.block import BlockRouter
from keepset.routers.trained_blocks import blocks_to_read
from keepset.text.prompt import Prompt, check_tokenizer, document_tokens, lay_out
from keepset.text.split import Blocks

BLOCKS = "sentence"
"""Whole sentences and lines cut no fact in two."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """A document as the policy ranks it: the same for every budget."""

    document: str
    question: str | None
    prompt: Prompt
    scores: Tensor
    seconds: float

    @property
    def lengths(self) -> list[int]:
        """Tokens of the blocks."""
        return [len(span) for span in self.prompt.blocks]


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A document whose blocks are chosen and whose keys and values are not computed yet."""

    scored: _Scored
    budget: Budget
    protected: KeepSet
    kept: KeepSet
    tokens: Tensor
    """(T,) of the document, or under ``text`` of the kept text."""
    positions: Tensor
    """(K,) of those to keep."""


class Pruner:
    """Keeps of every document what ``policy`` ranks first: a name of ``POLICIES``, a router or its folder, or your own.

    ``blocks`` is a number of tokens, 'paragraph', 'sentence', 'line' or (start, stop) character spans; a router knows
    its own and takes no others, without one it is 'sentence'. Always kept: the chat prefix and text outside the blocks,
    which cost no budget; the first block (``keep_first``, unless the budget holds no other) and the last
    ``keep_recent`` blocks, which do.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        policy: str | Path | BlockRouter | Policy | None = None,
        mode: EvictionMode = "global",
        blocks: Blocks | None = None,
        keep_first: bool = True,
        keep_recent: int = 0,
    ) -> None:
        if mode not in get_args(EvictionMode):
            raise ValueError(f"mode: expected one of {', '.join(get_args(EvictionMode))}, got {mode!r}")
        check_model(model)
        check_tokenizer(tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.policy = find_policy(policy, tokenizer)
        self.mode: EvictionMode = mode
        self.blocks = _blocks(self.policy, blocks)
        self.keep_first = keep_first
        self.keep_recent = keep_recent

    def prune(self, document: str, budget: Budget | float | int, question: str | None = None) -> PrunedContext:
        """A cache of the kept blocks. ``question`` only for policies that are to see it (``query_aware``)."""
        (pruned,) = self.prune_batch([document], budget, None if question is None else [question])
        return pruned

    def prune_at(
        self, document: str, budgets: Sequence[Budget | float | int], question: str | None = None
    ) -> list[PrunedContext]:
        """One cache per budget, all from one scoring; where everything is read, from one prefill too."""
        found = [Budget.of(budget) for budget in budgets]
        if not found:
            raise ValueError("budgets: expected at least one, got none")
        scored = self._score(document, question, found)
        chosen = [self._choose(scored, budget) for budget in found]
        if self.mode != "post_prefill":  # each reads something else
            return [pruned for c in chosen for pruned in self._prefill([c])]
        began = own_seconds()
        tokens = scored.prompt.tokens
        (whole,) = prefill_kept(self.model, [(tokens, torch.arange(len(tokens)))], self.mode)
        seconds = own_seconds() - began
        return [self._context(c, narrowed(whole, c.positions), seconds) for c in chosen]

    def prune_batch(
        self, documents: Sequence[str], budget: Budget | float | int, questions: Sequence[str] | None = None
    ) -> list[PrunedContext]:
        """One cache per document; documents of similar length share a prefill."""
        budget = Budget.of(budget)
        if isinstance(documents, str) or not isinstance(documents, Sequence):
            raise ValueError(
                f"documents: expected a list of texts, got {type(documents).__name__}; prune takes one text"
            )
        asked: Sequence[str | None] = questions if questions is not None else [None] * len(documents)
        if len(asked) != len(documents):
            raise ValueError(f"questions: expected one per document ({len(documents)}), got {len(asked)}")
        scored = [self._score(*pair, [budget]) for pair in zip(documents, asked, strict=True)]
        return self._prefill([self._choose(each, budget) for each in scored])

    def _score(self, document: str, question: str | None, budgets: Sequence[Budget]) -> _Scored:
        prompt = lay_out(self.tokenizer, document, self.blocks, question)
        asked = None if question is None else prompt.question
        check_room(self.model, len(prompt.tokens), 1 if asked is None else len(asked))
        for budget in budgets:  # fails before any work
            protected_blocks([len(span) for span in prompt.blocks], budget, self.keep_first, self.keep_recent)
        began = own_seconds()
        scores = score_checked(self.policy, Context(self.model, prompt.tokens, prompt.blocks, asked))
        return _Scored(document, question, prompt, scores, own_seconds() - began)

    def _choose(self, scored: _Scored, budget: Budget) -> _Chosen:
        protected = protected_blocks(scored.lengths, budget, self.keep_first, self.keep_recent)
        kept = select(scored.scores, scored.lengths, budget, protected)
        tokens = scored.prompt.tokens
        positions = kept_positions(len(tokens), scored.prompt.blocks, kept)
        if self.mode == "text":
            dropped = [place for i, place in enumerate(scored.prompt.places) if i not in kept]
            tokens = torch.tensor(document_tokens(self.tokenizer, kept_text(scored.document, dropped)))
            positions = torch.arange(len(tokens))
        return _Chosen(scored, budget, protected, kept, tokens, positions)

    def _prefill(self, chosen: Sequence[_Chosen]) -> list[PrunedContext]:
        found: dict[int, PrunedContext] = {}
        for group in self._groups(chosen):
            began = own_seconds()
            caches = prefill_kept(self.model, [(c.tokens, c.positions) for c in group], self.mode)
            seconds = (own_seconds() - began) / sum(self._read(c) for c in group)
            for c, cache in zip(group, caches, strict=True):
                found[id(c)] = self._context(c, cache, seconds * self._read(c))
        return [found[id(c)] for c in chosen]

    def _read(self, chosen: _Chosen) -> int:
        """Tokens that go through the model."""
        return len(chosen.tokens) if self.mode == "post_prefill" else len(chosen.positions)

    def _groups(self, chosen: Sequence[_Chosen]) -> Iterator[list[_Chosen]]:
        """Documents of similar length, as many as a forward takes."""
        group: list[_Chosen] = []
        for c in sorted(chosen, key=self._read):
            if group and (len(group) + 1) * self._read(c) > MAX_TOKENS:
                yield group
                group = []
            group.append(c)
        if group:
            yield group

    def _context(self, chosen: _Chosen, cache: KeptCache, prefill_seconds: float) -> PrunedContext:
        scored = chosen.scored
        rows = zip(scored.prompt.blocks, scored.prompt.places, scored.scores.tolist(), strict=True)
        blocks = tuple(
            BlockRecord(
                number=i,
                start=place[0],
                stop=place[1],
                first_token=span.start,
                end_token=span.stop,
                score=score,
                why="dropped" if i not in chosen.kept else "protected" if i in chosen.protected else "chosen",
            )
            for i, (span, place, score) in enumerate(rows)
        )
        record = PruneRecord(
            document=scored.document,
            question=scored.question,
            policy=self.policy.name,
            regime="pre_query" if scored.question is None else "query_aware",
            mode=self.mode,
            budget=chosen.budget,
            n_tokens=len(scored.prompt.tokens),
            text_tokens=len(chosen.tokens) if self.mode == "text" else None,
            blocks=blocks,
            score_seconds=scored.seconds,
            prefill_seconds=prefill_seconds,
        )
        pruned = PrunedContext(self.model, self.tokenizer, record, cache)
        pruned.report()  # a silent no-op is this field's classic bug
        return pruned


def _blocks(policy: Policy, wanted: Blocks | None) -> Blocks:
    """How documents are cut: for a router as its labels were."""
    if isinstance(policy, Routed):
        return blocks_to_read(policy.router.blocks, wanted)
    return BLOCKS if wanted is None else wanted

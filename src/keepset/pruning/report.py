"""What was kept of a document and why, what it takes now, and whether the rest is really gone."""

from collections.abc import Sequence
from typing import Literal, Self

import torch
from pydantic import FiniteFloat, NonNegativeInt, PositiveInt, model_validator
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from keepset.blocks import Span
from keepset.files import Frozen
from keepset.policies.policy import Regime
from keepset.pruning.budget import Budget
from keepset.pruning.cache import EvictionMode, KeptCache, kept_positions
from keepset.terminal import one_line, print_line
from keepset.text.prompt import Characters

SHOWN = 70
"""Characters of a block in the terminal."""
GAP = "\n[...]\n"
"""Stands in ``text`` for dropped blocks, so that another model does not read across them."""


class BlockRecord(Frozen):
    """One block and what became of it."""

    number: NonNegativeInt
    start: NonNegativeInt
    """Its first character in the document."""
    stop: NonNegativeInt
    """One after its last character."""
    first_token: NonNegativeInt
    end_token: NonNegativeInt
    """One after its last token."""
    score: FiniteFloat
    """The policy's; higher is kept first."""
    why: Literal["protected", "chosen", "dropped"]

    @property
    def kept(self) -> bool:
        return self.why != "dropped"

    @property
    def tokens(self) -> int:
        return self.end_token - self.first_token


class PruneRecord(Frozen):
    """Everything about a pruned document but its keys and values."""

    document: str
    question: str | None
    """What the policy read, under ``query_aware``."""
    policy: str
    regime: Regime
    mode: EvictionMode
    budget: Budget
    n_tokens: PositiveInt
    """Of the whole document with its chat prefix."""
    text_tokens: PositiveInt | None = None
    """Mode ``text``: tokens of the kept text with its chat prefix, which are read in place of the document's."""
    blocks: tuple[BlockRecord, ...]
    score_seconds: float
    """Wall time of the policy; a reading that it shared with others counts as its own."""
    prefill_seconds: float
    """Wall time of the prefill; in a batch, this document's share by tokens."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """A record may come from elsewhere: what it says must fit together before anything is computed from it."""
        character = token = 0
        for i, block in enumerate(self.blocks):
            in_text = character <= block.start < block.stop <= len(self.document)
            in_tokens = token <= block.first_token < block.end_token <= self.n_tokens
            if block.number != i or not in_text or not in_tokens:
                raise ValueError(f"expected blocks numbered in order, each after the other, got {block!r} in place {i}")
            character, token = block.stop, block.end_token
        if not self.blocks:
            raise ValueError("expected at least one block, got none")
        if (self.text_tokens is None) == (self.mode == "text"):
            raise ValueError(f"expected text_tokens with mode text alone, got {self.text_tokens} with {self.mode}")
        return self

    @property
    def read(self) -> str:
        """What stands before a question: the document, or under ``text`` what was kept of it."""
        return self.document if self.text_tokens is None else self.text

    @property
    def tokens_read(self) -> int:
        """Tokens of ``read``: the position at which a question starts."""
        return self.n_tokens if self.text_tokens is None else self.text_tokens

    @property
    def positions(self) -> Tensor:
        """(K,) of the kept tokens in what is read: all but those of dropped blocks."""
        if self.text_tokens is not None:
            return torch.arange(self.text_tokens)
        spans = [Span(block.first_token, block.end_token) for block in self.blocks]
        return kept_positions(self.n_tokens, spans, frozenset(block.number for block in self.blocks if block.kept))

    @property
    def text(self) -> str:
        """The document without its dropped blocks; a mark where some were."""
        return kept_text(self.document, [(block.start, block.stop) for block in self.blocks if not block.kept])


def kept_text(document: str, dropped: Sequence[Characters]) -> str:
    """``document`` without the places in ``dropped``, in order; a mark where some were."""
    parts: list[str] = []
    at = 0
    for start, stop in dropped:
        between = document[at:start]
        parts += [between, GAP] if between.strip() or not parts else []
        at = stop
    return "".join([*parts, document[at:]]).strip()


class PruneReport(Frozen):
    """What ``PrunedContext.report`` found."""

    record: PruneRecord
    tokens_after: int
    bytes_before: int
    """Keys and values of the whole document."""
    bytes_after: int

    @property
    def tokens_before(self) -> int:
        return self.record.n_tokens

    @property
    def seconds(self) -> float:
        """Measured: the policy and the prefill."""
        return self.record.score_seconds + self.record.prefill_seconds

    @property
    def estimated_seconds_saved(self) -> float:
        """Of a dense prefill, the policy's own time paid: negative where the policy costs more than it saves.

        Scaled up by tokens from the measured prefill. Long prefills cost more per token, so it is a lower bound.
        """
        dense = self.record.prefill_seconds
        if self.record.mode != "post_prefill":
            dense *= self.tokens_before / self.tokens_after
        return dense - self.seconds

    def show(self, console: Console | None = None) -> None:
        """The blocks as a table, then the numbers."""
        console = console or Console()
        record = self.record
        table = Table("block", "tokens", "score", "", "text")
        for block in record.blocks:
            text = one_line(record.document[block.start : block.stop])
            numbers = str(block.number), str(block.tokens), f"{block.score:.4g}"
            table.add_row(*numbers, block.why, Text(text[:SHOWN]), style=None if block.kept else "dim")
        console.print(table)
        for line in self.lines():
            print_line(console, line)

    def lines(self) -> list[str]:
        record, kept = self.record, sum(block.kept for block in self.record.blocks)
        saved = self.estimated_seconds_saved
        lines = [
            f"kept {kept} of {len(record.blocks)} blocks ({record.budget}) by {record.policy}, {record.regime}, "
            f"{record.mode}",
            f"tokens {self.tokens_before:,} -> {self.tokens_after:,}; keys and values {self.bytes_before / 1e6:,.1f} MB"
            f" -> {self.bytes_after / 1e6:,.1f} MB",
            f"{record.score_seconds:.2f} s to score, {record.prefill_seconds:.2f} s to prefill; about "
            f"{abs(saved):.2f} s {'less' if saved > 0 else 'more'} than a dense prefill",
        ]
        if kept == len(record.blocks):
            lines.append(f"nothing was dropped: the document has {kept} block(s), and the budget holds as many")
        return lines


def check_eviction(record: PruneRecord, cache: KeptCache) -> PruneReport:
    """Raises ValueError unless every layer holds the kept tokens, and memory holds nothing else."""
    expected = record.positions
    lengths = sorted({part.shape[2] for part in cache.tensors})
    if not torch.equal(cache.positions, expected) or lengths != [len(expected)]:
        raise ValueError(
            f"eviction: expected {len(expected)} of {record.tokens_read} tokens in every layer, got {lengths} slots "
            f"and {len(cache.positions)} positions; prune the document again"
        )
    allowed = len(expected) * cache.bytes_per_token
    if cache.n_bytes != allowed:
        raise ValueError(
            f"eviction: expected {allowed:,} bytes of keys and values for {len(expected)} tokens, got "
            f"{cache.n_bytes:,} held in memory; prune the document again"
        )
    lengths_of_blocks = [block.tokens for block in record.blocks]
    costs = record.budget.costs(lengths_of_blocks)
    spent = sum(costs[block.number] for block in record.blocks if block.kept)
    limit = record.budget.limit(lengths_of_blocks)
    if len(costs) > 1 and spent > limit:
        raise ValueError(f"eviction: expected at most {limit} of the budget ({record.budget}) spent, got {spent}")
    return PruneReport(
        record=record,
        tokens_after=len(expected),
        bytes_before=record.n_tokens * cache.bytes_per_token,
        bytes_after=cache.n_bytes,
    )

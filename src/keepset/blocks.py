"""Blocks, keep sets and examples: the objects every stage passes on.

Axis letters, everywhere: B batch, T tokens, N blocks, W block width, L layers, H heads,
D width, K kept, Q queries, S sets of a family.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

KeepSet = frozenset[int]
"""The numbers of the blocks that stay visible; everything else is hidden."""

Family = frozenset[KeepSet]
"""The minimal sufficient sets of one example."""


class Span(NamedTuple):
    """Token positions ``start`` to ``stop - 1``."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def check_spans(blocks: tuple[Span, ...], query: Span, n_tokens: int) -> None:
    """Blocks must be non-empty, in order, disjoint, and end before the query; the query ends the tokens."""
    previous = 0
    for i, span in enumerate(blocks):
        if not 0 <= span.start < span.stop:
            raise ValueError(f"block {i}: expected a non-empty span, got [{span.start}, {span.stop})")
        if span.start < previous:
            raise ValueError(
                f"block {i}: expected to start at {previous} or later (blocks in order, disjoint), "
                f"got [{span.start}, {span.stop})"
            )
        previous = span.stop
    if query.start >= query.stop:
        raise ValueError(f"query: expected a non-empty span, got [{query.start}, {query.stop})")
    if query.start < previous:
        raise ValueError(f"query: expected to start after the last block ({previous}), got {query.start}")
    if query.stop != n_tokens:
        raise ValueError(f"query: expected to end the {n_tokens} tokens, got stop {query.stop}")


@dataclass(frozen=True)
class Example:
    """One context and one question.

    ``tokens`` is everything the model reads before it answers. Tokens outside ``blocks`` (a prefix,
    separators, the query) are always visible.
    """

    tokens: Tensor
    """(T,) token ids up to, not including, the answer."""
    blocks: tuple[Span, ...]
    query: Span
    answer: tuple[int, ...]
    """Token ids of the gold answer."""
    family: Family | None = None
    """The annotated minimal sufficient sets, when known."""

    def __post_init__(self) -> None:
        check_spans(self.blocks, self.query, len(self.tokens))
        if not self.answer:
            raise ValueError("answer: expected at least one token, got none")
        for keep in self.family or ():
            check_keep_set(keep, len(self.blocks))

    @property
    def evidence(self) -> KeepSet:
        """The annotated union: every block of any minimal sufficient set."""
        if self.family is None:
            raise ValueError("this example carries no annotated family")
        return frozenset().union(*self.family)


def check_keep_set(keep: KeepSet, n_blocks: int) -> None:
    """A keep set names existing blocks."""
    wrong = sorted(i for i in keep if not 0 <= i < n_blocks)
    if wrong:
        raise ValueError(f"keep set: expected block numbers in [0, {n_blocks}), got {wrong}")


@dataclass(frozen=True)
class ExampleBatch:
    """Examples of equal shape, as the synthetic tasks make them; several queries per context."""

    tokens: Tensor
    """(B, T) blocks, then queries with their answers."""
    blocks: tuple[Span, ...]
    answer_rows: tuple[int, ...]
    """(Q) the position whose next-token prediction is the answer of query q."""
    answers: Tensor
    """(B, Q) token ids."""
    asked: Tensor
    """(B, Q) bool: False where a query only fills the format and is not supervised."""
    family: Tensor
    """(B, S, N) bool: minimal sufficient sets of query 0; rows of zeros are padding."""

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @property
    def context_tokens(self) -> int:
        return self.blocks[-1].stop

    def first_query(self) -> Tensor:
        """(B, T') the evaluation form: an exact prefix of the training form, ending at the first answer row."""
        return self.tokens[:, : self.answer_rows[0] + 1]

    def example(self, i: int) -> Example:
        """Example ``i`` with its first query."""
        tokens = self.tokens[i, : self.answer_rows[0] + 1]
        sets = (frozenset(torch.nonzero(row).flatten().tolist()) for row in self.family[i])
        return Example(
            tokens=tokens,
            blocks=self.blocks,
            query=Span(self.context_tokens, len(tokens)),
            answer=(int(self.answers[i, 0]),),
            family=frozenset(keep for keep in sets if keep),
        )

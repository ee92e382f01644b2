"""How much may be kept, and which blocks that buys."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from keepset.blocks import KeepSet
from keepset.files import Frozen

ROUNDING = 9
"""Decimals: 0.07 * 100 is 7.000000000000001 in floating point, and is meant to be 7."""
FORMS = (
    "a share of the blocks (0.1), a number of blocks (12), a share of the tokens (Budget.share_of_tokens(0.25)) or a "
    "number of tokens (Budget.tokens(500))"
)


def rounded_up(share: float, count: int) -> int:
    """How many of ``count`` a share is, the paper's way: ceil(share × count)."""
    return math.ceil(round(share * count, ROUNDING))


class Budget(Frozen):
    """A share of the blocks, a number of blocks, or a share or number of the blocks' tokens; at least one block.

    A share of the blocks is rounded up, as the paper does: ceil(share × blocks). Tokens are never
    exceeded: whole blocks are kept while they fit.
    Protected blocks count against it, the chat prefix and text outside the blocks do not: a budget of 10 % keeps
    10 % of the blocks whatever is protected.
    """

    unit: Literal["share of blocks", "blocks", "share of tokens", "tokens"]
    amount: float = Field(gt=0, allow_inf_nan=False)

    @classmethod
    def share_of_blocks(cls, share: float) -> "Budget":
        return cls(unit="share of blocks", amount=_checked_share(share))

    @classmethod
    def blocks(cls, number: int) -> "Budget":
        if number < 1:
            raise ValueError(f"budget: expected at least 1 block, got {number}")
        return cls(unit="blocks", amount=number)

    @classmethod
    def share_of_tokens(cls, share: float) -> "Budget":
        return cls(unit="share of tokens", amount=_checked_share(share))

    @classmethod
    def tokens(cls, number: int) -> "Budget":
        if number < 1:
            raise ValueError(f"budget: expected at least 1 token, got {number}")
        return cls(unit="tokens", amount=number)

    @classmethod
    def of(cls, value: "Budget | float | int") -> "Budget":
        """A bare float is a share of the blocks, a bare int a number of blocks."""
        if isinstance(value, Budget):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"budget: expected {FORMS}, got {value!r}")
        return cls.blocks(value) if isinstance(value, int) else cls.share_of_blocks(value)

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """As a command gets it: ``0.1``, ``12``, ``0.25 tokens`` or ``500 tokens``."""
        text = text.strip()
        number = text.removesuffix("tokens").strip()
        try:
            if number != text:
                return cls.tokens(int(number)) if number.isdigit() else cls.share_of_tokens(float(number))
            return cls.of(int(text) if text.isdigit() else float(text))
        except ValueError as error:
            if str(error).startswith("budget:"):
                raise
            raise ValueError(f"budget: expected 0.1, 12, '0.25 tokens' or '500 tokens', got {text!r}") from error

    def __str__(self) -> str:
        whole = self.unit in ("blocks", "tokens")
        return f"{self.amount:g} {self.unit}" if whole else f"{100 * self.amount:g} % {self.unit[6:]}"

    @property
    def in_tokens(self) -> bool:
        return self.unit.endswith("tokens")

    def limit(self, lengths: Sequence[int]) -> int:
        """How many blocks may be kept, or how many tokens in blocks; ``lengths`` are the blocks' tokens."""
        if self.unit == "blocks":
            if self.amount > len(lengths):
                raise ValueError(
                    f"budget: expected at most the document's {len(lengths)} blocks, got {self.amount:g}; "
                    "ask for less or cut smaller blocks"
                )
            return int(self.amount)
        if self.unit == "tokens":
            return int(self.amount)
        if self.unit == "share of blocks":
            return rounded_up(self.amount, len(lengths))
        return max(1, math.floor(round(self.amount * sum(lengths), ROUNDING)))

    def costs(self, lengths: Sequence[int]) -> list[int]:
        """What each block takes of ``limit``."""
        return list(lengths) if self.in_tokens else [1] * len(lengths)


def protected_blocks(lengths: Sequence[int], budget: Budget, keep_first: bool, keep_recent: int) -> KeepSet:
    """The first block, where models park attention, and the last ``keep_recent``.

    A budget with room for nothing beside the first block goes to the block the policy ranks best: a selection that
    the policy has no say in would be none.
    """
    if keep_recent < 0:
        raise ValueError(f"keep_recent: expected a number of blocks, 0 or more, got {keep_recent}")
    n, limit, costs = len(lengths), budget.limit(lengths), budget.costs(lengths)
    if n == 1:  # nothing to choose between: a document shorter than a block is kept whole
        return frozenset({0})
    recent = frozenset(range(max(0, n - keep_recent), n))
    for protected in (recent | {0}, recent) if keep_first else (recent,):
        others = [costs[block] for block in range(n) if block not in protected]
        if sum(costs[block] for block in protected) + min(others, default=0) <= limit:
            return protected
    unit = "tokens" if budget.in_tokens else "blocks"
    raise ValueError(
        f"budget: expected room for a block beside the {len(recent)} recent ones "
        f"({sum(costs[block] for block in recent)} {unit}), got {budget}: {limit} {unit} in a document of {n} blocks; "
        "raise the budget, cut smaller blocks or lower keep_recent"
    )


def select(scores: Tensor, lengths: Sequence[int], budget: Budget, protected: KeepSet) -> KeepSet:
    """The protected blocks, then the best-scored ones while they fit; of equal scores the earlier block first.

    Where tokens are counted, a block that does not fit is passed over for the next one that does.
    """
    limit, costs = budget.limit(lengths), budget.costs(lengths)
    kept = set(protected)
    spent = sum(costs[block] for block in protected)
    for block in scores.sort(descending=True, stable=True).indices.tolist():
        if block not in kept and spent + costs[block] <= limit:
            kept.add(block)
            spent += costs[block]
    return frozenset(kept)


def _checked_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError(f"budget: expected a share in (0, 1], got {share:g}; 0.1 keeps 10 %")
    return share

"""Attention labels: the k most attended blocks, or the smallest set that holds 90 % of the attention."""

from torch import Tensor

from keepset.labels.evidence import rankings, top_k

COVERED = 0.9
"""Share of the attention over context blocks that an adaptive set covers."""


def attention_top_k(attention: Tensor, k: int | Tensor) -> Tensor:
    """(B, N) bool: the ``k`` blocks with most of ``attention`` (B, N)."""
    return top_k(attention, k)


def adaptive_sets(attention: Tensor, covered: float = COVERED) -> Tensor:
    """(B, N) bool: the smallest set that holds ``covered`` of each row's attention (B, N)."""
    if not 0 < covered <= 1:
        raise ValueError(f"covered: expected a share above 0 and at most 1, got {covered}")
    if (attention < 0).any():
        raise ValueError("attention: expected shares of at least 0, got a negative one")
    place = rankings(attention, attention.new_ones(attention.shape).bool())
    sorted_ = attention.sort(1, descending=True, stable=True).values
    before = sorted_.cumsum(1) - sorted_  # what the blocks ranked higher hold already
    wanted = before < covered * attention.sum(1, keepdim=True)
    return wanted.gather(1, place)

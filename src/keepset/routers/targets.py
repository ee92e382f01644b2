"""Labels as training targets: what a distribution says as acceptable sets, and a family as a distribution.

    family   (B, S, N) bool    the acceptable sets; rows of zeros are padding
    weights  (B, N)            non-negative block scores: attention mass, saliency, ...

An example without a label (no set, no mass) becomes a target of zeros, which every loss leaves out.
"""

import torch
from torch import Tensor

ROUNDING = 1e-6
"""A sum of float32 shares may miss the mass by this much; a block more for that would be an accident."""


def as_distribution(weights: Tensor) -> Tensor:
    """(B, N) block scores -> the distribution proportional to them."""
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise ValueError(
            f"weights: expected finite block scores of at least 0, got {float(weights.min())} as the least"
        )
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def top_sets(weights: Tensor, k: int) -> Tensor:
    """(B, N) block scores -> (B, 1, N): the k largest as the single acceptable set; ties go to the lower block."""
    n_blocks = weights.shape[-1]
    if not 1 <= k <= n_blocks:
        raise ValueError(f"k: expected 1 to {n_blocks} blocks, got {k}")
    return (_rank(weights) < k).unsqueeze(1)


def adaptive_sets(weights: Tensor, mass: float = 0.9) -> Tensor:
    """(B, N) block scores -> (B, 1, N): the smallest set that holds ``mass`` of their sum."""
    if not 0 < mass <= 1:
        raise ValueError(f"mass: expected a share in (0, 1], got {mass}")
    rank = _rank(weights)
    ordered = as_distribution(weights).gather(-1, rank.argsort(-1))
    before = ordered.cumsum(-1) - ordered  # the mass already held when a block is added
    return ((before < mass - ROUNDING) & (ordered > 0)).gather(-1, rank).unsqueeze(1)


def uniform_over_union(family: Tensor) -> Tensor:
    """(B, S, N) -> (B, N): every block of any acceptable set counts the same."""
    return as_distribution(family.any(1).float())


def uniform_over_sets(family: Tensor) -> Tensor:
    """(B, S, N) -> (B, N): every acceptable set counts the same, and so does every block inside it."""
    return as_distribution(as_distribution(family.float()).sum(1))


def _rank(weights: Tensor) -> Tensor:
    """(B, N) place of each block in descending order."""
    return weights.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)

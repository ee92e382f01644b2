"""The adaptive set: as many blocks as it takes to cover most of the attention."""

import torch
from torch import Tensor

MASS = 0.9
"""The paper's share."""

ROUNDING = 1e-6
"""A share missed by less than this is reached: sums of float32 scores are not exact."""


def adaptive_set(scores: Tensor, mass: float = MASS) -> Tensor:
    """(B, N) non-negative scores -> (B, N) bool: the smallest set with a share ``mass`` of all the blocks' score.

    Of equal blocks the earlier one is taken first. Where every score is zero the set is empty.
    """
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"scores: expected (B, N) with at least one block, got shape {tuple(scores.shape)}")
    if not bool((scores >= 0).all()) or not bool(scores.isfinite().all()):
        raise ValueError("scores: expected finite, non-negative numbers; pass attention mass, not its logarithm")
    if not 0 < mass <= 1:
        raise ValueError(f"mass: expected a share in (0, 1], got {mass}")
    ranked = scores.double().sort(dim=-1, descending=True, stable=True)
    total = ranked.values.sum(-1, keepdim=True)
    before = ranked.values.cumsum(-1) - ranked.values  # (B, N) what the larger blocks cover already
    needed = before < (mass - ROUNDING) * total
    return torch.zeros_like(needed).scatter(-1, ranked.indices, needed)

"""Labels as training targets: each kind of label under each loss.

    label    (B, N) bool       one set of blocks per example: top k, adaptive, recovered
    family   (B, S, N) bool    acceptable sets, any one of which is enough; rows of zeros are padding
    weights  (B, N)            non-negative block scores: attention mass, saliency

                    for KL and SparseKL                        for Coverage
    weights         as_distribution                            acceptable_sets of their top k or adaptive set
    label, family   uniform_over_sets                          acceptable_sets; a family as it is

An example without a label (no set, no mass) becomes a target of zeros, which every loss leaves out.
"""

import torch
from torch import Tensor


def as_distribution(weights: Tensor) -> Tensor:
    """(..., N) block scores -> the distribution proportional to them."""
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise ValueError(f"weights: expected finite scores of at least 0, got {float(weights.min())} as the lowest")
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def acceptable_sets(label: Tensor, alternatives: Tensor | None = None) -> Tensor:
    """(B, N) -> (B, S, N): the whole label as the one set, or, where ``alternatives`` (B,), each of its blocks alone.

    An evidence set is the one or the other: blocks that suffice alone, or blocks that are all necessary.
    """
    whole = label.unsqueeze(1)
    if alternatives is None or not bool(alternatives.any()):
        return whole
    alone = label & alternatives.unsqueeze(1)
    place = alone.cumsum(1) - 1  # block -> which of the sets it makes
    numbers = torch.arange(int(alone.sum(1).max()), device=label.device).view(1, -1, 1)
    singles = (place.unsqueeze(1) == numbers) & alone.unsqueeze(1)  # (B, S, N)
    first = (whole & ~alternatives.view(-1, 1, 1)) | singles[:, :1]
    return torch.cat([first, singles[:, 1:]], dim=1)


def uniform_over_sets(family: Tensor) -> Tensor:
    """(B, S, N) -> (B, N): every acceptable set counts the same, and so does every block inside it."""
    return as_distribution(as_distribution(family.float()).sum(1))

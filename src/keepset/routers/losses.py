"""Losses: how far a router's scores are from a target.

scores   (R, B, N)         of R routers that train side by side, or (B, N) of one
target   (B, N) distribution for KL and SparseKL; (B, S, N) acceptable sets for Coverage
result   (R, B)            per example; zero where the target is empty
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softplus


class Loss(ABC):
    """What differs between supervisions, besides the label."""

    @abstractmethod
    def __call__(self, scores: Tensor, target: Tensor, progress: float) -> Tensor:
        """``progress`` is the share of training already done, in [0, 1)."""


@dataclass(frozen=True)
class KL(Loss):
    """KL(target || softmax of the scores): distillation of block attention."""

    def __call__(self, scores: Tensor, target: Tensor, progress: float) -> Tensor:
        return divergence(scores, target)


@dataclass(frozen=True)
class SparseKL(Loss):
    """KL over the router's own top k blocks, both sides renormalised there (Ahmad and Yun, 2026)."""

    k: int

    def __call__(self, scores: Tensor, target: Tensor, progress: float) -> Tensor:
        n_blocks = scores.shape[-1]
        if not 1 <= self.k <= n_blocks:
            raise ValueError(f"SparseKL: expected k in 1 to {n_blocks} blocks, got {self.k}")
        chosen, blocks = scores.topk(self.k, dim=-1)
        inside = target.to(scores.dtype).expand_as(scores).gather(-1, blocks)
        # No mass inside says nothing about the order in there: such an example weighs nothing this time.
        inside = inside / inside.sum(-1, keepdim=True).clamp(min=torch.finfo(inside.dtype).tiny)
        return divergence(chosen, inside)


@dataclass(frozen=True)
class Coverage(Loss):
    """Binary cross-entropy against each acceptable set, and of those a smooth minimum: covering one set is enough.

    The temperature falls linearly to zero, where the smooth minimum is the minimum.
    """

    temperature: float = 1.0
    """Temperature at the first step."""
    annealed: float = 0.8
    """Share of training after which it is zero."""

    def __call__(self, scores: Tensor, target: Tensor, progress: float) -> Tensor:
        return smooth_minimum(set_losses(scores, target), self.temperature * max(0.0, 1.0 - progress / self.annealed))


def divergence(scores: Tensor, target: Tensor) -> Tensor:
    """KL(target || softmax of the scores) over the last axis."""
    target = target.to(scores.dtype)
    # xlogy: a block without mass adds nothing, whatever its logarithm.
    return (torch.xlogy(target, target) - target * log_softmax(scores, dim=-1)).sum(-1)


def set_losses(scores: Tensor, family: Tensor) -> Tensor:
    """(..., B, S) mean binary cross-entropy of the scores against each set's indicator; infinite for padding."""
    sets = family.to(scores.dtype)
    # -y log s(x) - (1 - y) log(1 - s(x)) = softplus(x) - x y: the sets share the first term.
    inside = torch.einsum("...bn,bsn->...bs", scores, sets) / scores.shape[-1]
    losses = softplus(scores).mean(-1, keepdim=True) - inside
    return losses.masked_fill(~family.bool().any(-1), torch.inf)


def smooth_minimum(losses: Tensor, temperature: float) -> Tensor:
    """(..., S) -> (...): -t log sum exp(-loss / t); the minimum itself at t = 0; zero where every set is padding."""
    empty = losses.isinf().all(-1, keepdim=True)
    losses = losses.masked_fill(empty, 0.0)  # a minimum over nothing has no gradient, not even zero
    least = -temperature * torch.logsumexp(-losses / temperature, dim=-1) if temperature > 0 else losses.amin(-1)
    return least.masked_fill(empty.squeeze(-1), 0.0)

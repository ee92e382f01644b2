"""How well two labels agree, and how well one agrees with what is known."""

from collections.abc import Sequence

import torch
from torch import Tensor

from keepset.blocks import Family, KeepSet


def jaccard(a: Tensor, b: Tensor) -> Tensor:
    """(B,) overlap of two labels (B, N): shared blocks over all named ones; 1 where both are empty."""
    either = (a | b).sum(1)
    shared = (a & b).sum(1)
    return torch.where(either > 0, shared / either.clamp(min=1), 1.0)


def exact_match(label: Tensor, known: Tensor) -> Tensor:
    """(B,) bool: the same blocks."""
    return (label == known).all(1)


def covers(keep: KeepSet, family: Family) -> bool:
    """``keep`` holds a whole sufficient set of ``family``."""
    return any(found <= keep for found in family)


def covered(keeps: Sequence[KeepSet], families: Sequence[Family]) -> list[bool]:
    """Per example: the label holds a whole annotated set."""
    return [covers(keep, family) for keep, family in zip(keeps, families, strict=True)]

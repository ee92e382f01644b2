"""Recency: the last blocks."""

import torch
from torch import Tensor

from keepset.policies.policy import BOTH, Context


class Recency:
    """Later is better."""

    name = "recency"
    title = "recency"
    regimes = BOTH

    def score(self, context: Context) -> Tensor:
        return torch.arange(len(context.blocks), dtype=torch.float32)

"""Recency: the last blocks."""

import torch
from torch import Tensor

from keepset.policies.policy import BOTH, Document


class Recency:
    """Later is better."""

    name = "recency"
    regimes = BOTH

    def score(self, document: Document) -> Tensor:
        return torch.arange(len(document.blocks), dtype=torch.float32)

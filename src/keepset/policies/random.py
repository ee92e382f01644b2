"""Random: what any policy must beat."""

import zlib

import torch
from torch import Tensor

from keepset import seeds
from keepset.policies.policy import BOTH, Context


class Random:
    """A ranking drawn from ``seed`` and the document's tokens: the same document always gets the same one."""

    name = "random"
    title = "random"
    regimes = BOTH

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, context: Context) -> Tensor:
        draw = zlib.crc32(context.tokens.long().cpu().numpy().tobytes()) % seeds.DRAWS
        generator = torch.Generator().manual_seed(seeds.STATISTICS.seed(self.seed, draw))
        return torch.rand(len(context.blocks), generator=generator)

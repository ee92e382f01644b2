"""Routed: a trained block router as a policy."""

from pathlib import Path

from torch import Tensor

from keepset.policies.policy import Context, Regime
from keepset.routers.block import BlockRouter, check_reads, load_block_router, score_features


class Routed:
    """A router that was trained for this model; for any other it raises ValueError."""

    name = "routed"

    def __init__(self, router: BlockRouter) -> None:
        self.router = router
        self.title = f"{router.target} router"
        self.regimes: frozenset[Regime] = frozenset({router.regime})

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Routed":
        """A router that ``save_pretrained`` wrote."""
        return cls(load_block_router(Path(folder)))

    def score(self, context: Context) -> Tensor:
        check_reads(self.router, context.model, context.question)
        return score_features(self.router, context.features(self.router.layers))

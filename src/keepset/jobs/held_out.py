"""How well a router finds the evidence of documents it has not seen: what training says before it hands over a router.

Every fifth document is held out, and a router with the same seed and steps is trained on the others. The router that is
handed over learns from all documents, so this is what one trained on four fifths of them does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keepset.pruning.budget import Budget
from keepset.statistics import wilson

EVERY = 5
"""One document in so many is held out; with fewer documents, none."""
FEW_DOCUMENTS = 20
"""Under which what was held out, at most three documents, tells little."""
BUDGETS = (0.1, 0.25)
"""Shares of the blocks."""
TIED = 0.01
"""Share of the best score within which a block is tied with it."""
SATURATED = 0.5
"""Share of tied blocks from which scores do not tell blocks apart."""


@dataclass(frozen=True)
class HeldOutQuestion:
    """A question of a document that the router has not seen."""

    scores: Tensor
    """(N,) the router's, of the document's blocks."""
    evidence: Tensor
    """(S, N) bool: sets of blocks, any one of which is enough."""

    def keeps(self, share: float) -> bool:
        """Some set is whole among the best ``share`` of the blocks, as many as pruning keeps."""
        n_blocks = len(self.scores)
        kept = torch.zeros(n_blocks, dtype=torch.bool)
        limit = Budget.share_of_blocks(share).limit([1] * n_blocks)
        kept[self.scores.argsort(descending=True, stable=True)[:limit]] = True
        return bool((self.evidence.any(1) & (kept | ~self.evidence).all(1)).any())

    @property
    def tied(self) -> int:
        """Blocks as good as the best one, without it."""
        best = self.scores.max()
        return int((self.scores >= best - TIED * best.abs()).sum()) - 1


@dataclass(frozen=True)
class HeldOut:
    """What a router does on the held-out documents."""

    documents: int
    questions: tuple[HeldOutQuestion, ...]

    def kept(self, share: float) -> int:
        """Questions whose evidence is kept with ``share`` of the blocks."""
        return sum(question.keeps(share) for question in self.questions)

    @property
    def tied(self) -> float:
        """Share of the blocks that are as good as the best of their document, which is not counted."""
        others = sum(len(question.scores) - 1 for question in self.questions)
        return sum(question.tied for question in self.questions) / max(others, 1)

    def line(self) -> str:
        """Recall of the evidence at both budgets, for people."""
        n = len(self.questions)
        shares = []
        for budget in BUDGETS:
            kept = self.kept(budget)
            low, high = wilson(kept, n)
            shares.append(f"{kept / n:.2f} ({low:.2f}–{high:.2f}) with {100 * budget:.0f} % of the blocks")
        return (
            f"held out: documents {self.documents:,}, questions {n:,}; recall of their evidence {', '.join(shares)} "
            "(95 % interval over questions)"
        )


def held_out(n_documents: int) -> list[int]:
    """Numbers of the documents that are held out."""
    return list(range(EVERY - 1, n_documents, EVERY))


def warnings(n_documents: int, found: HeldOut | None) -> Sequence[str]:
    """What should not pass in silence, a line each."""
    lines = []
    if found is None:
        lines.append(
            f"few documents: {n_documents}; none could be held out, so how well the router finds evidence is not "
            f"known: label at least {FEW_DOCUMENTS}"
        )
    elif n_documents < FEW_DOCUMENTS:
        lines.append(
            f"few documents: {n_documents}, of which {found.documents} held out; that tells little about new ones: "
            f"label at least {FEW_DOCUMENTS}"
        )
    if found is not None and found.tied > SATURATED:
        lines.append(
            f"scores saturate: {100 * found.tied:.0f} % of the held-out blocks are within {100 * TIED:.0f} % of their "
            "document's best score, so it hardly tells blocks apart: label more documents, or other questions"
        )
    return lines

"""What every router shares: what it reads, and what it refuses to score.

A router reads the context and the query, never the answer and never the model:

    block 0        ...  block N-1        query
    WRITE f m v ·  ...  WRITE f m v ·    QUERY f m        -> (B, N) scores, higher is kept first
"""

import torch
from torch import Tensor, nn

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.tasks.sheet import QUERY_TOKENS
from keepset.paper.testbed.tasks.vocabulary import Vocabulary

ASKED_TOKENS = QUERY_TOKENS - 1
"""QUERY family member: the query without the position that is supervised."""
SCORED_AT_ONCE = 4_096
"""Blocks scored in one forward outside training; bounds the memory of long contexts."""


class Router(nn.Module):
    """A small network that scores blocks. Subclasses implement ``forward(tokens) -> (B, N)``."""

    kind: str

    def __init__(self, vocabulary: Vocabulary, block_width: int) -> None:
        super().__init__()
        if block_width < ASKED_TOKENS:
            raise ValueError(
                f"block_width: expected at least {ASKED_TOKENS} (the tokens of a query), got {block_width}"
            )
        self.vocabulary = vocabulary
        self.block_width = block_width

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T) context and query -> (B, N, W) blocks and (B, 3) query. An answer token does not fit in."""
        n_blocks, rest = divmod(tokens.shape[1] - ASKED_TOKENS, self.block_width)
        if n_blocks < 1 or rest:
            raise ValueError(
                f"tokens: expected blocks of {self.block_width} and a query of {ASKED_TOKENS} without its answer, "
                f"got {tokens.shape[1]} tokens; cut them with router_input and use a router of the same block width"
            )
        context = n_blocks * self.block_width
        return tokens[:, :context].unflatten(1, (n_blocks, self.block_width)), tokens[:, context:]


def router_input(batch: ExampleBatch) -> Tensor:
    """(B, T) all a router may read: context and first query, cut before the answer."""
    return batch.first_query()


@torch.no_grad()
def score_blocks(router: Router, batch: ExampleBatch) -> Tensor:
    """(B, N) scores of every block of every example."""
    tokens = router_input(batch)
    widths = sorted({len(span) for span in batch.blocks})
    if widths != [router.block_width]:
        raise ValueError(
            f"blocks: expected {router.block_width} tokens each (the router's block width), got {widths}; "
            "use a router that was trained on this block width"
        )
    low, high, size = int(tokens.min()), int(tokens.max()), router.vocabulary.size
    if low < 0 or high >= size:
        raise ValueError(
            f"tokens: expected ids in [0, {size}) (the router's vocabulary), got {low} to {high}; "
            "use a router that was trained on this vocabulary"
        )
    device = next(router.parameters()).device
    chunk = max(1, SCORED_AT_ONCE // len(batch.blocks))
    return torch.cat([router(part.to(device)).cpu() for part in tokens.split(chunk)])


def bag(indices: Tensor, size: int) -> Tensor:
    """(..., W) indices -> (..., size) how often each occurs.

    A sum of table rows is this bag times the table. The bag has no gradient and no seed: routers that train
    side by side share it, and one matrix product replaces a gather and its slow scatter on the way back.
    """
    counts = torch.zeros(*indices.shape[:-1], size, device=indices.device)
    return counts.scatter_add_(-1, indices, torch.ones(indices.shape, device=indices.device))


def relative_positions(n_blocks: int, device: torch.device) -> Tensor:
    """(N, 1) block i stands at (i + 1) / N: the same range at every length, so longer contexts stay in it."""
    return torch.arange(1, n_blocks + 1, device=device).div(n_blocks).unsqueeze(-1)

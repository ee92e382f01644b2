"""The chain router: blocks that keep the order of their tokens, and look at each other."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from keepset.paper.testbed.routers.router import ASKED_TOKENS, Router, bag, relative_positions
from keepset.paper.testbed.tasks.vocabulary import Vocabulary
from keepset.routers.layer import LAYERS, WIDTH, RouterLayer


class ChainRouter(Router):
    """summary = sum over offsets o of P_o e_o; two layers over all summaries and the query's; a scorer per block.

    A token's projection depends on where it stands, so the key a record carries and the key it points to stay
    apart. The query uses the same projections: QUERY f m and WRITE f m hold their key at the same offsets.
    """

    kind = "chain"
    depth = LAYERS

    def __init__(self, vocabulary: Vocabulary, block_width: int) -> None:
        super().__init__(vocabulary, block_width)
        self.table = nn.Embedding(vocabulary.size, WIDTH)
        self.offsets = nn.Parameter(torch.randn(block_width, WIDTH, WIDTH) * (block_width * WIDTH) ** -0.5)
        self.position = nn.Parameter(torch.randn(1, WIDTH))
        self.is_query = nn.Parameter(torch.randn(1, WIDTH))
        self.layers = nn.ModuleList(RouterLayer() for _ in range(self.depth))
        self.norm = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, N)"""
        x = self.summaries(tokens)
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.score(torch.relu(self.hidden(self.norm(x[:, :-1]))))
        return scores.squeeze(-1)

    def summaries(self, tokens: Tensor) -> Tensor:
        """(B, N + 1, D) every block, then the query."""
        blocks, query = self.split(tokens)
        size = self.vocabulary.size
        place = size * torch.arange(self.block_width, device=tokens.device)  # every offset has a table of its own
        columns = self.block_width * size
        position = relative_positions(blocks.shape[1], tokens.device).expand(len(tokens), -1, -1)
        # Two more columns: the relative position of a block, and 1 for the query.
        of_blocks = torch.cat([bag(blocks + place, columns), pad(position, (0, 1))], dim=-1)
        of_query = pad(pad(bag(query + place[:ASKED_TOKENS], columns), (0, 1)), (0, 1), value=1.0)
        features = torch.cat([of_blocks, of_query.unsqueeze(1)], dim=1)  # (B, N + 1, WV + 2)
        tables = (self.table.weight @ self.offsets).flatten(0, 1)  # (WV, D)
        return features @ torch.cat([tables, self.position, self.is_query])


class DeepChainRouter(ChainRouter):
    """A layer for every record of a three-hop chain: found one after another, each by the one before it."""

    kind = "deep_chain"
    depth = 4

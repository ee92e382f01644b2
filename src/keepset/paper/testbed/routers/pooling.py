"""The pooling router: every block on its own, as the mean of its tokens."""

import torch
from torch import Tensor, nn

from keepset.paper.testbed.routers.router import ASKED_TOKENS, Router, bag, relative_positions
from keepset.paper.testbed.tasks.vocabulary import Vocabulary
from keepset.routers.layer import WIDTH

HIDDEN = 128
"""Width of the scorer's hidden layer: 23.5K parameters at the paper's vocabulary of 105 tokens."""


class PoolingRouter(Router):
    """score = W2 relu(W1 [mean of the block, mean of the query, relative position])

    Mean pooling loses the order of a block's tokens: a pointer's source and destination look alike.
    """

    kind = "pooling"

    def __init__(self, vocabulary: Vocabulary, block_width: int) -> None:
        super().__init__(vocabulary, block_width)
        self.table = nn.Embedding(vocabulary.size, WIDTH)
        self.hidden = nn.Linear(2 * WIDTH + 1, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, N)"""
        blocks, query = self.split(tokens)
        batch, n_blocks, _ = blocks.shape
        size = self.vocabulary.size
        position = relative_positions(n_blocks, tokens.device)
        features = torch.cat(
            [
                bag(blocks, size) / self.block_width,
                (bag(query, size) / ASKED_TOKENS).unsqueeze(1).expand(-1, n_blocks, -1),
                position.expand(batch, -1, -1),
                torch.ones_like(position).expand(batch, -1, -1),
            ],
            dim=-1,
        )  # (B, N, 2V + 2)
        # Pooling and the first layer are both linear: applied to the table first, they are one product.
        of_block, of_query, of_position = self.hidden.weight.T.split([WIDTH, WIDTH, 1])
        table = self.table.weight
        first = torch.cat([table @ of_block, table @ of_query, of_position, self.hidden.bias.unsqueeze(0)])
        scores: Tensor = self.score(torch.relu(features @ first))
        return scores.squeeze(-1)

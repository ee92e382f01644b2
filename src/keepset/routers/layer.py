"""The transformer layer that routers are made of."""

import torch
from torch import Tensor, nn

WIDTH = 64
"""Width of a router's own token table and of its layers (paper, appendix C)."""
LAYERS = 2
HEADS = 4
HIDDEN = 128
"""Width of a layer's MLP: 111K parameters at the paper's vocabulary and block width of 8."""


class RouterLayer(nn.Module):
    """A pre-norm transformer layer. Written out because ``nn.MultiheadAttention`` has no batched form over seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor, exists: Tensor | None = None) -> Tensor:
        """(B, N + 1, D) -> (B, N + 1, D); where ``exists`` (B, N + 1) is False nobody looks."""
        x = x + self.output(self.attend(self.queries_keys_values(self.attention_norm(x)), exists))
        x = x + self.down(torch.relu(self.up(self.mlp_norm(x))))
        return x

    def attend(self, x: Tensor, exists: Tensor | None) -> Tensor:
        """(B, N + 1, 3D) -> (B, N + 1, D)"""
        query, key, value = x.unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)  # (B, H, N + 1, D / H)
        match = query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        if exists is not None:
            match = match.masked_fill(~exists[:, None, None], -torch.inf)
        read: Tensor = match.softmax(-1) @ value
        return read.transpose(1, 2).flatten(2)

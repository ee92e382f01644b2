"""Plain words and logistic regression: what any router that never sees the question must beat."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from keepset.files import replacing_file
from keepset.text.lexical import BUCKETS, buckets

STEPS = 120
LEARNING_RATE = 5e-3
DECAY = 0.1
"""Chosen on QASPER papers that are neither trained on nor held out."""


class WordWeights(nn.Module):
    """Log odds that somebody asks about a block: one weight for each of its different words."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag.from_pretrained(torch.zeros(BUCKETS, 1), freeze=False, mode="sum")
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, texts: Sequence[str]) -> Tensor:
        """(N,)"""
        scores: Tensor = self.weights(*word_bag(texts)).squeeze(-1) + self.bias
        return scores


def word_bag(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The buckets of the different words of all texts, one text after the other, and where each begins."""
    rows = [sorted(set(buckets(text))) for text in texts]
    starts = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
    return torch.tensor([bucket for row in rows for bucket in row], dtype=torch.long), starts


def fit_words(texts: Sequence[str], wanted: Tensor) -> WordWeights:
    """``wanted`` (N,) says which of ``texts`` somebody asked about."""
    model = WordWeights()
    words, starts = word_bag(texts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        scores = model.weights(words, starts).squeeze(-1) + model.bias
        loss = binary_cross_entropy_with_logits(scores, wanted.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def save_words(model: WordWeights, path: Path) -> None:
    """In half precision: 16 KB."""
    with replacing_file(path) as temporary:
        save_file({name: weight.half().contiguous() for name, weight in model.state_dict().items()}, temporary)


def load_words(path: Path) -> WordWeights:
    model = WordWeights()
    model.load_state_dict({name: weight.float() for name, weight in load_file(path).items()})
    return model.eval()

"""Plain words and logistic regression: what any router that never sees the question must beat."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from keepset.routers.logistic import fit_logistic
from keepset.text.lexical import BUCKETS, buckets

PENALTY = 300.0
"""Of 30, 100 and 300 the best on the training papers of QASPER, each scored by a fit on other papers (five folds)."""


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

    def odds() -> Tensor:
        scores: Tensor = model.weights(words, starts).squeeze(-1) + model.bias
        return scores

    fit_logistic(odds, wanted, {model.weights.weight: PENALTY}, [model.bias])
    return model.eval()


def load_words(path: Path) -> WordWeights:
    model = WordWeights()
    model.load_state_dict({name: weight.float() for name, weight in load_file(path).items()})
    return model.eval()

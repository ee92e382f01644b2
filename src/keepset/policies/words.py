"""Words: the blocks whose words people ask about; plain logistic regression, no model is read."""

from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.policies.policy import PRE_QUERY, Context
from keepset.routers.words import WordWeights, load_words

WEIGHTS = Path(__file__).parent / "words.safetensors"
"""Fitted on training documents of QASPER and SQuAD, not as ``keepset bench natural`` fits its words; no command makes
them anew."""


class Words:
    """What any policy that never sees the question, and reads the model for it, must beat."""

    name = "words"
    title = "words"
    regimes = PRE_QUERY

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def weights(self) -> WordWeights:
        return load_words(WEIGHTS)

    @torch.no_grad()
    def score(self, context: Context) -> Tensor:
        texts = [
            str(self.tokenizer.decode(context.tokens[span.start : span.stop], skip_special_tokens=True))
            for span in context.blocks
        ]
        scores: Tensor = self.weights(texts)
        return scores

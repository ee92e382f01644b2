"""BM25: the blocks that share rare words with the question."""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.policies.policy import QUERY_AWARE, Context
from keepset.text.bm25 import bm25


class BM25:
    """Words alone: what any policy that sees the question, and reads the model for it, must beat."""

    name = "bm25"
    title = "BM25"
    regimes = QUERY_AWARE

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def score(self, context: Context) -> Tensor:
        assert context.question is not None, "its regime"
        texts = [self._say(context.tokens[span.start : span.stop]) for span in context.blocks]
        return torch.tensor(bm25(self._say(context.question), texts))

    def _say(self, tokens: Tensor) -> str:
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        assert isinstance(text, str)
        return text

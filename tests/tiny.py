"""Models for tests: real architectures, too small to know anything."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
"""Of any architecture with grouped queries; the vocabulary is the test's own."""


def tiny_llama(positions: int = 512) -> PreTrainedModel:
    """Two layers over the tokens of ``byte_tokenizer``; the same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        own = {"vocab_size": 400, "max_position_embeddings": positions, "initializer_range": 0.4, "eos_token_id": 1}
        return LlamaForCausalLM(LlamaConfig(**SHAPE | own)).eval()

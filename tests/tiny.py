"""A model for tests: a real architecture, too small to know anything."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel


def tiny_llama(positions: int = 512) -> PreTrainedModel:
    """Two layers over the tokens of ``byte_tokenizer``; the same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = LlamaConfig(
            vocab_size=400,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=positions,
            initializer_range=0.4,
            eos_token_id=1,
        )
        return LlamaForCausalLM(config).eval()

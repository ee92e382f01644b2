"""One small model, and tokens with blocks of different widths and gaps between them."""

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from keepset.blocks import Example, Span


@pytest.fixture
def model() -> PreTrainedModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def example() -> Example:
    tokens = torch.randint(50, (17,), generator=torch.Generator().manual_seed(1))
    return Example(tokens, (Span(2, 6), Span(6, 7), Span(9, 14)), query=Span(14, 17), answer=(3, 4))


@pytest.fixture
def tokens(example: Example) -> Tensor:
    return example.tokens[None]

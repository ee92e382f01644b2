"""A tiny model with a chat template, and a document of forty lines."""

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.paper.bench.models import tiny_model

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    model, tokenizer = tiny_model()
    with torch.no_grad():  # untrained attention is nearly uniform, and then nothing hidden would be missed
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 20
    return model, tokenizer


@pytest.fixture(scope="session")
def document() -> str:
    return "\n".join(f"The code for NARO{i} is {1000 + 37 * i}." for i in range(20))

"""Readouts against the attention that transformers itself reports, on small models of real architectures."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from keepset.blocks import Span
from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.readouts import (
    accumulated_attention,
    all_position_attention,
    answer_attention,
    attention_rollout,
    backward_trace,
    input_saliency,
    layers,
    output_reconstruction,
    window_attention,
)

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}
WINDOW: dict[str, Any] = {
    "head_dim": 8,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=8)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, **WINDOW, query_pre_attn_scalar=5)),
    # Its scores are capped, which only the eager attention of transformers does.
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(**SHAPE, **WINDOW, attn_logit_softcapping=2.0, attn_implementation="eager")
    ),
}
BATCH, TOKENS, LAYERS = 3, 19, 3
BLOCKS = (Span(2, 6), Span(6, 7), Span(9, 14))
QUESTION = Span(15, TOKENS)
EARLY = Span(7, 11)
"""Rows in the context: the last block is partly after them."""


EAGER = {"llama, eager": "llama", "gemma3, eager": "gemma3"}


@pytest.fixture(params=[*MODELS, *EAGER])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(0)
    model = MODELS[EAGER.get(request.param, request.param)]().eval()
    if request.param in EAGER:
        model.set_attn_implementation("eager")
    return model


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(SHAPE["vocab_size"], (BATCH, TOKENS), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def reported(model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """(B, L, H, T, T)"""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    attention = model(tokens, output_attentions=True).attentions
    model.set_attn_implementation(before)
    return torch.stack(attention, dim=1)


def per_block(scores: Tensor) -> Tensor:
    return torch.stack([scores[..., list(range(*span))].sum(-1) for span in BLOCKS], dim=-1)


def assert_equal(found: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-4)


def test_answer_attention(model: PreTrainedModel, tokens: Tensor) -> None:
    expected = per_block(reported(model, tokens)[..., -1, :])
    assert expected.shape == (BATCH, LAYERS, 4, len(BLOCKS))
    assert_equal(answer_attention(model, tokens, BLOCKS), expected)


def test_accumulated_and_all_position_attention(model: PreTrainedModel, tokens: Tensor) -> None:
    expected = per_block(reported(model, tokens).sum(-2))
    assert_equal(accumulated_attention(model, tokens, BLOCKS), expected)
    assert_equal(all_position_attention(model, tokens, BLOCKS), expected.sum(1).mean(1))


@pytest.mark.parametrize("rows", [QUESTION, EARLY])
def test_window_attention(model: PreTrainedModel, tokens: Tensor, rows: Span) -> None:
    expected = per_block(reported(model, tokens)[..., list(range(*rows)), :].sum(-2))
    assert_equal(window_attention(model, tokens, BLOCKS, rows), expected)


def test_rollout(model: PreTrainedModel, tokens: Tensor) -> None:
    product = torch.eye(TOKENS).expand(BATCH, -1, -1)
    for attention in reported(model, tokens).mean(2).unbind(1):
        product = (attention / 2 + torch.eye(TOKENS) / 2) @ product
    assert_equal(attention_rollout(model, tokens, BLOCKS), per_block(product[:, -1]))


def test_backward_trace(model: PreTrainedModel, tokens: Tensor) -> None:
    """Every pair of rows keeps its best path, from the first layer up; the answer row is read at the end."""
    best = torch.eye(TOKENS).expand(BATCH, -1, -1)
    for attention in reported(model, tokens).unbind(1):
        step = torch.maximum(attention.amax(1), torch.eye(TOKENS))
        best = (step[..., None] * best[:, None]).amax(2)  # (B, T, T, T) over the row between
    expected = torch.stack([best[:, -1, list(range(*span))].amax(-1) for span in BLOCKS], dim=-1)
    assert_equal(backward_trace(model, tokens, BLOCKS), expected)


@pytest.mark.parametrize("rows", [QUESTION, EARLY])
@torch.no_grad()
def test_reconstruction_hides_the_block_in_one_softmax(model: PreTrainedModel, tokens: Tensor, rows: Span) -> None:
    """The attention function of transformers, asked again with the keys of each block hidden."""
    model.set_attn_implementation("eager")  # always with a mask
    mask = layers.clean_mask(model, BATCH, TOKENS)
    changes: list[Tensor] = []

    def ask_again(call: AttentionCall) -> Attention:
        assert call.mask is not None
        whole = call.attend()
        by_block = []
        for span in BLOCKS:
            hidden = call.mask.clone()
            hidden[..., span.start : span.stop] = -1e9
            without, _ = replace(call, mask=hidden).attend()
            distance = (whole[0] - without).norm(dim=-1)  # (B, T, H)
            by_block.append(distance[:, rows.start : rows.stop].mean(1))
        changes.append(torch.stack(by_block, dim=-1))
        return whole

    with wrapped_attention(model, ask_again):
        model(tokens, attention_mask=mask, use_cache=False)
    found = output_reconstruction(model, tokens, BLOCKS, rows)
    assert_equal(found, torch.stack(changes, dim=1), atol=1e-4)


@pytest.mark.parametrize("length", [1, 3])
def test_saliency_equals_the_gradient_taken_one_example_at_a_time(
    model: PreTrainedModel, tokens: Tensor, length: int
) -> None:
    answers = torch.randint(SHAPE["vocab_size"], (BATCH, length), generator=torch.Generator().manual_seed(2))
    expected = []
    for row, answer in zip(tokens, answers, strict=True):
        read = torch.cat([row, answer[:-1]])[None]
        embeddings = model.get_input_embeddings()(read).detach().requires_grad_()
        logged = model(inputs_embeds=embeddings).logits[0, -length:].log_softmax(-1)
        logged[torch.arange(length), answer].sum().backward()
        assert embeddings.grad is not None
        expected.append(per_block(embeddings.grad[0].norm(dim=-1)))
    found = input_saliency(model, tokens, BLOCKS, answers)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-3)


def test_small_pieces_and_single_examples_give_the_same(
    model: PreTrainedModel, tokens: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    readouts: list[Callable[[Tensor], Tensor]] = [
        lambda x: answer_attention(model, x, BLOCKS),
        lambda x: accumulated_attention(model, x, BLOCKS),
        lambda x: window_attention(model, x, BLOCKS, QUESTION),
        lambda x: attention_rollout(model, x, BLOCKS),
        lambda x: backward_trace(model, x, BLOCKS),
        lambda x: output_reconstruction(model, x, BLOCKS, QUESTION),
    ]
    whole = [readout(tokens) for readout in readouts]
    for chunk in (1, BATCH * 4 * TOKENS * 3):  # one row at a time; three, where rows are left over
        monkeypatch.setattr(layers, "CHUNK", chunk)
        for readout, expected in zip(readouts, whole, strict=True):
            assert_equal(readout(tokens), expected)
    for readout, expected in zip(readouts, whole, strict=True):
        assert_equal(readout(tokens[1:2]), expected[1:2])

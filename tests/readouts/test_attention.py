"""Attention pooled over heads and layers, and the model left as it was."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Example, Span
from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.readouts import answer_attention, pool_attention, window_attention


def test_the_answer_row_is_a_window_of_one(model: PreTrainedModel, example: Example, tokens: Tensor) -> None:
    found = answer_attention(model, tokens, example.blocks)
    assert found.shape == (1, 3, 4, 3)
    assert torch.equal(found, window_attention(model, tokens, example.blocks, Span(16, 17)))
    everything = answer_attention(model, tokens, [Span(0, 17)])
    torch.testing.assert_close(everything, torch.ones(1, 3, 4, 1))


def test_heads_are_pooled_before_layers() -> None:
    attention = torch.tensor([[[[0.1, 0.6], [0.5, 0.2]], [[0.3, 0.3], [0.1, 0.5]]]])  # (1, 2 layers, 2 heads, 2 blocks)
    torch.testing.assert_close(pool_attention(attention), torch.tensor([[0.4, 0.55]]))
    torch.testing.assert_close(pool_attention(attention, heads="mean"), torch.tensor([[0.25, 0.4]]))
    torch.testing.assert_close(pool_attention(attention, layer=1), torch.tensor([[0.3, 0.5]]))
    torch.testing.assert_close(pool_attention(attention, heads="mean", layer=0), torch.tensor([[0.3, 0.4]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention": torch.zeros(2, 3)}, r"attention: expected \(B, L, H, N\), got shape \(2, 3\)"),
        ({"layer": 2}, r"layer: expected a number in \[0, 2\) or None .*, got 2"),
        ({"layer": -1}, "layer: expected"),
        ({"heads": "sum"}, "heads: expected 'max' or 'mean', got 'sum'"),
    ],
)
def test_bad_pooling_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pool_attention(**{"attention": torch.zeros(1, 2, 2, 2), **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [Span(0, 0), Span(3, 2), Span(10, 18), Span(-1, 3)])
def test_rows_outside_the_tokens_are_refused(
    model: PreTrainedModel, example: Example, tokens: Tensor, rows: Span
) -> None:
    with pytest.raises(ValueError, match="rows: expected a non-empty span inside the 17 tokens, got"):
        window_attention(model, tokens, example.blocks, rows)


def test_the_model_is_left_as_it_was_also_after_a_failure(model: PreTrainedModel, tokens: Tensor) -> None:
    before, expected = model.config._attn_implementation, model(tokens).logits

    def fail(call: AttentionCall) -> Attention:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"), wrapped_attention(model, fail):
        model(tokens)
    assert model.config._attn_implementation == before
    assert torch.equal(model(tokens).logits, expected)


def test_a_second_wrapper_is_refused_and_the_first_survives(
    model: PreTrainedModel, example: Example, tokens: Tensor
) -> None:
    seen: list[object] = []

    def look(call: AttentionCall) -> Attention:
        seen.append(call.module)
        return call.attend()

    with wrapped_attention(model, look):
        with pytest.raises(ValueError, match="expected one wrapper at a time"), wrapped_attention(model, look):
            pass
        model(tokens)
    assert len(seen) == 3
    assert answer_attention(model, tokens, example.blocks).isfinite().all()

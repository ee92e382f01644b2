"""Paths from the answer down: nothing is lost in the sum, and no path is better than staying."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Example, Span
from keepset.readouts import answer_attention, attention_rollout, backward_trace, pool_attention
from keepset.readouts.paths import reached

EVERYTHING = [Span(0, 17)]


def test_rollout_shares_out_one(model: PreTrainedModel, example: Example, tokens: Tensor) -> None:
    torch.testing.assert_close(attention_rollout(model, tokens, EVERYTHING), torch.ones(1, 1))
    assert attention_rollout(model, tokens, example.blocks).sum() < 1


def test_the_answer_row_is_reached_by_staying(model: PreTrainedModel, tokens: Tensor) -> None:
    assert backward_trace(model, tokens, [Span(0, 16), Span(16, 17)])[0, 1] == 1


def test_a_path_of_one_step_is_a_path(model: PreTrainedModel, tokens: Tensor) -> None:
    """The trace is at least the strongest attention of the answer row, in any layer and head."""
    blocks = [Span(i, i + 1) for i in range(16)]
    attention = answer_attention(model, tokens, blocks)
    single_step = torch.stack([pool_attention(attention, "max", layer) for layer in range(3)]).amax(0)
    trace = backward_trace(model, tokens, blocks)
    assert (trace >= single_step - 1e-6).all()
    assert (trace > single_step + 1e-3).any()


def test_rows_before_the_first_reached_one_are_skipped() -> None:
    assert reached(torch.tensor([[0.0, 0.0, 0.2], [0.0, 0.1, 0.0]])) == Span(1, 3)

"""What remains of a head's output without a block, where arithmetic is delicate."""

import torch
from transformers import PreTrainedModel

from keepset.blocks import Example, Span
from keepset.readouts import output_reconstruction
from keepset.readouts.reconstruction import output_change, partition


def test_parts_cover_everything_once() -> None:
    parts = partition([Span(0, 2), Span(2, 3), Span(5, 6)])
    covered = [i for start, stop in parts for i in range(start, min(stop, 9))]
    assert covered == list(range(9))
    assert parts[1::2] == [Span(0, 2), Span(2, 3), Span(5, 6)]


def test_a_block_with_nearly_all_the_mass() -> None:
    """The rest weighs 1e-11, below what float32 can tell from one minus the block."""
    attention = torch.tensor([25.0, 25.0, 0.0, 0.5, -1.0]).softmax(0)
    values = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    others = torch.tensor([0.0, 0.5, -1.0]).softmax(0) @ values[2:]
    found = output_change(attention[None, None, None], values[None, None], [Span(0, 2)])
    torch.testing.assert_close(found[0, 0, 0, 0], (attention @ values - others).norm())


def test_a_row_that_reads_only_the_block_is_left_with_nothing() -> None:
    values = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
    found = output_change(torch.tensor([[[[0.3, 0.7]]]]), values[None, None], [Span(0, 2)])
    torch.testing.assert_close(found, torch.full((1, 1, 1, 1), 5.0))


def test_a_block_after_the_rows_changes_nothing(model: PreTrainedModel, example: Example) -> None:
    found = output_reconstruction(model, example.tokens[None], example.blocks, Span(7, 9))
    assert found.shape == (1, 3, 4, 3)
    assert (found[..., :2] > 1e-4).all()
    assert (found[..., 2] < 1e-5).all()

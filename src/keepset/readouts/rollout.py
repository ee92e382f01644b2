"""Attention rollout: all paths from the answer to a block, summed."""

from collections.abc import Sequence

from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import Layer, block_sums, check_inputs
from keepset.readouts.paths import descend, reached


def attention_rollout(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, N) the answer row of the product of all layers, each ``(attention + identity) / 2``, summed per block.

    Attention is the mean over heads (Abnar and Zuidema, 2020).
    """
    check_inputs(model, tokens, blocks)
    return block_sums(descend(model, tokens, mix), blocks).cpu()


def mix(layer: Layer, reach: Tensor) -> Tensor:
    """Half of what reached a row stays there, half goes where its heads look."""
    mixed = reach / 2
    for rows, attention in layer.chunks(reached(reach)):
        passed = reach[:, None, rows.start : rows.stop] @ attention.mean(1)  # (B, 1, keys)
        mixed[:, : rows.stop] += passed[:, 0] / 2
    return mixed

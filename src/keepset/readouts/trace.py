"""The backward trace: the strongest single path from the answer to a block."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import Layer, check_inputs
from keepset.readouts.paths import descend, reached


def backward_trace(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, N) the largest product of attention weights along a path from the answer row down to the block.

    The paper: "the strongest single path to each position instead of summing". Where it is silent, chosen here:
    a path goes through one head per layer, so heads are maximised over; it may stay where it is in a layer at no
    cost, which is rollout's mix with the identity without the factor of one half that every path shares; and a
    block is reached by the strongest path to any of its tokens, so a long block gains nothing by its length.
    """
    check_inputs(model, tokens, blocks)
    reach = descend(model, tokens, follow_strongest)
    return torch.stack([reach[:, span.start : span.stop].amax(-1) for span in blocks], dim=-1).cpu()


def follow_strongest(layer: Layer, reach: Tensor) -> Tensor:
    """A row is reached by staying there, or by the best step of any head from any row reached before."""
    best = reach.clone()
    for rows, attention in layer.chunks(reached(reach)):
        steps = reach[:, rows.start : rows.stop, None] * attention.amax(1)  # (B, rows, keys)
        best[:, : rows.stop] = torch.maximum(best[:, : rows.stop], steps.amax(1))
    return best

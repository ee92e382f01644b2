"""From the answer down through the layers: what the readouts that compose attention share."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import Layer, visit_layers

Step = Callable[[Layer, Tensor], Tensor]
"""A layer and (B, T), how strongly each of its output rows is reached -> (B, T), the same of its input rows."""


def descend(model: PreTrainedModel, tokens: Tensor, step: Step) -> Tensor:
    """(B, T) how strongly the answer row (the last one) reaches each input token.

    Only one row of the product of all layers is wanted, so it is carried down as a vector; the queries and keys of
    all layers are held, and their attention is computed again.
    """
    layers: list[Layer] = []
    visit_layers(model, tokens, layers.append)
    reach = torch.zeros(tokens.shape, device=model.device)
    reach[:, -1] = 1
    for layer in reversed(layers):
        reach = step(layer, reach.to(layer.query.device))  # a model may be spread over devices
    return reach


def reached(reach: Tensor) -> Span:
    """The rows from the first that anything of (B, T) has come to; those before pass nothing on."""
    return Span(int(reach.any(0).int().argmax()), reach.shape[1])

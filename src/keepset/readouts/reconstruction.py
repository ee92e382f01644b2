"""Output reconstruction: how far a head's output moves when a block is removed."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import Layer, check_inputs, check_rows, visit_layers


def output_reconstruction(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span], rows: Span) -> Tensor:
    """(B, L, H, N) norm of the change of a head's output without the block, mean over ``rows``.

    The indicator of ReST-KV, exact: without the block, the softmax of that head is taken over the remaining keys;
    layers below are as they were. A row that reads nothing but the block is left with an output of zero.
    """
    check_inputs(model, tokens, blocks)
    check_rows(rows, tokens.shape[1])
    layers: list[Tensor] = []

    def read(layer: Layer) -> None:
        held_per_row = (2 * len(blocks) + 1) * (layer.value.shape[-1] + 1)
        total = torch.zeros(*layer.query.shape[:2], len(blocks), device=layer.query.device)  # (B, H, N)
        for piece, attention in layer.chunks(rows, held_per_row):
            total += output_change(attention, layer.values(piece.stop), blocks).sum(2)
        layers.append((total / len(rows)).cpu())

    visit_layers(model, tokens, read)
    return torch.stack(layers, dim=1)


def output_change(attention: Tensor, values: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, H, R, S) attention and (B, H, S, D) values -> (B, H, R, N) distance between the outputs with and without.

    What remains is summed from the left and from the right of the block, never as the whole minus the block:
    where a block holds nearly all the mass, that difference would be rounding error.
    """
    weighed = torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)  # the mass itself rides along
    parts = torch.stack([attention[..., s:t] @ weighed[:, :, s:t] for s, t in partition(blocks)], dim=-2)
    left = parts.cumsum(-2)  # (B, H, R, 2N + 1, D + 1)
    right = parts.flip(-2).cumsum(-2).flip(-2)
    rest = left[..., :-1:2, :] + right[..., 2::2, :]  # (B, H, R, N, D + 1)
    remaining = rest[..., :-1] / rest[..., -1:].clamp(min=torch.finfo(rest.dtype).tiny)
    change: Tensor = torch.linalg.vector_norm(left[..., -1:, :-1] - remaining, dim=-1)
    return change


def partition(blocks: Sequence[Span]) -> list[Span]:
    """The gap before each block, the block, and at the end what is left: 2N + 1 spans, gaps possibly empty."""
    parts, previous = [], 0
    for span in blocks:
        parts += [Span(previous, span.start), span]
        previous = span.stop
    return [*parts, Span(previous, torch.iinfo(torch.int64).max)]

"""Attention that blocks receive from some rows: from the answer row, from a window, or from all rows."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import Layer, block_sums, check_inputs, check_rows, visit_layers

Heads = Literal["max", "mean"]


def answer_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, L, H, N) attention mass that the answer row (the last one) puts on each block."""
    return window_attention(model, tokens, blocks, Span(tokens.shape[-1] - 1, tokens.shape[-1]))


def accumulated_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, L, H, N) attention each block receives, summed over every row, its own included: the statistic of H2O.

    Before the question exists, pass the tokens of the context alone.
    """
    return window_attention(model, tokens, blocks, Span(0, tokens.shape[-1]))


def all_position_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, N) attention each block receives, summed over every row and layer; mean over heads."""
    return accumulated_attention(model, tokens, blocks).mean(2).sum(1)


def window_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span], rows: Span) -> Tensor:
    """(B, L, H, N) attention each block receives, summed over ``rows``: the statistic of SnapKV.

    ``rows`` is the question, or ``Span(context - w, context)`` for the last ``w`` rows of the context.
    """
    check_inputs(model, tokens, blocks)
    check_rows(rows, tokens.shape[1])
    layers: list[Tensor] = []

    def read(layer: Layer) -> None:
        received = torch.zeros(*layer.query.shape[:2], rows.stop, device=layer.query.device)  # (B, H, keys)
        for piece, attention in layer.chunks(rows):
            received[..., : piece.stop] += attention.sum(2)
        layers.append(block_sums(received, blocks).cpu())

    visit_layers(model, tokens, read)
    return torch.stack(layers, dim=1)


def pool_attention(attention: Tensor, heads: Heads = "max", layer: int | None = None) -> Tensor:
    """(B, L, H, N) -> (B, N): max or mean over heads, then the mean over layers or one ``layer`` of them."""
    if attention.ndim != 4:
        raise ValueError(f"attention: expected (B, L, H, N), got shape {tuple(attention.shape)}")
    n_layers = attention.shape[1]
    if layer is not None and not 0 <= layer < n_layers:
        raise ValueError(f"layer: expected a number in [0, {n_layers}) or None for the mean over layers, got {layer}")
    if heads not in ("max", "mean"):
        raise ValueError(f"heads: expected 'max' or 'mean', got {heads!r}")
    by_layer = attention.amax(2) if heads == "max" else attention.mean(2)  # (B, L, N)
    return by_layer.mean(1) if layer is None else by_layer[:, layer]

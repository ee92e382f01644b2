"""Attention of the answer row, per block."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.interventions import answer_logits
from keepset.models.attention import Attention, wrapped_attention


def answer_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(B, L, H, N) attention mass that the answer row (the last one) puts on each block.

    Reduced to blocks layer by layer: no (T, T) matrix is ever held.
    """
    layers: list[Tensor] = []

    def read(
        inner: Callable[..., Attention],
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **kwargs: Any,
    ) -> Attention:
        row = last_row(query, key, mask, kwargs.get("scaling"))
        layers.append(torch.stack([row[..., span.start : span.stop].sum(-1) for span in blocks], dim=-1).cpu())
        return inner(module, query, key, value, mask, **kwargs)

    with wrapped_attention(model, read):
        answer_logits(model, tokens, blocks, torch.ones(len(tokens), 1, len(blocks), dtype=torch.bool))
    return torch.stack(layers, dim=1)


def last_row(query: Tensor, key: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """(B, H, T) attention probabilities of the last query row; keys may be shared by groups of heads."""
    keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # (B, H, T, D)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query[:, :, -1:] @ keys.mT)[:, :, 0].float() * scale
    if mask is not None:
        scores = scores + mask[:, :, -1].float()
    return scores.softmax(-1)

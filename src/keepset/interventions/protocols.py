"""The four routing protocols of the paper's appendix "Global sets against per-query selection".

All four are one table that says which row sees which block, so they cannot drift apart:

    global                        visible (B, 1, N)       the same blocks for every row and layer
    per query, per layer          visible (L, B, T, N)    every row of every layer its own blocks
    per query, layer-averaged     visible (B, T, N)       every row its own blocks
    dense prefill, sparse answer  visible (B, T, N)       ``dense_prefill``: only the last row is restricted
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.models.capabilities import sliding_windows
from keepset.models.masks import ModelMask, block_numbers, may_read, model_mask


def dense_prefill(keep: Tensor, n_tokens: int) -> Tensor:
    """(B, N) what the answer row may read -> (B, T, N): every earlier row reads everything."""
    visible = torch.ones(keep.shape[0], n_tokens, keep.shape[1], dtype=torch.bool)
    visible[:, -1] = keep
    return visible


@torch.no_grad()
def answer_logits(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span], visible: Tensor) -> Tensor:
    """(B, V) logits of the last row when rows read only the blocks ``visible`` to them.

    ``tokens`` is (B, T). ``visible`` is bool, in one of the shapes of this module's table.
    """
    batch, n_tokens = tokens.shape
    expected = ((batch, n_tokens, len(blocks)), (batch, 1, len(blocks)))
    if visible.dtype != torch.bool or visible.ndim not in (3, 4) or tuple(visible.shape[-3:]) not in expected:
        raise ValueError(
            f"visible: expected bool (B, T, N) or (B, 1, N), or (L, B, T, N), with B={batch}, T={n_tokens}, "
            f"N={len(blocks)}; got {visible.dtype} {tuple(visible.shape)}"
        )
    layers = model.config.get_text_config().num_hidden_layers
    if visible.ndim == 4 and len(visible) != layers:
        raise ValueError(f"visible: expected one table per layer ({layers}), got {len(visible)}")
    device = next(model.parameters()).device
    numbers = block_numbers(blocks, n_tokens)
    positions = torch.arange(n_tokens)[None]
    windows = sliding_windows(model)

    def mask_of(table: Tensor) -> ModelMask:
        mask = model_mask(windows, may_read(numbers, table), positions, positions, model.dtype)
        return {k: m.to(device) for k, m in mask.items()} if isinstance(mask, dict) else mask.to(device)

    def run(mask: ModelMask) -> Tensor:
        output = model(
            tokens.to(device),
            attention_mask=mask,
            position_ids=positions.expand(batch, -1).to(device),
            use_cache=False,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1].float().cpu()
        return logits

    if visible.ndim == 3:
        return run(mask_of(visible))
    masks = [mask_of(table) for table in visible]
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or [""] * layers
    own = [mask[kind] if isinstance(mask, dict) else mask for mask, kind in zip(masks, kinds, strict=True)]
    with per_layer_masks(model, own):
        return run(masks[0])


@contextmanager
def per_layer_masks(model: PreTrainedModel, masks: Sequence[Tensor]) -> Iterator[None]:
    """Inside, layer ``l`` adds ``masks[l]``, (B, 1, T, T), instead of the mask the forward was given.

    transformers passes one mask to all layers of a kind; here each layer picks its own.
    """

    def attend(call: AttentionCall) -> Attention:
        return replace(call, mask=masks[int(call.module.layer_idx)]).attend()  # type: ignore[arg-type]

    with wrapped_attention(model, attend):
        yield

"""Additive attention masks, always explicit and always built from true positions.

transformers guesses when it is not told: gapped positions without a mask are read as packed
sequences, and a 4D mask replaces the sliding window of every layer. So nothing here is left to guess.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from keepset.blocks import Span

FILL = -1e4
"""Added to the attention logit of what may not be read; the paper uses the same value for the causal mask."""

Windows = dict[str, int | None] | None
"""Layer type -> how many positions back a layer reads; see ``keepset.models.capabilities.sliding_windows``."""

ModelMask = Tensor | dict[str, Tensor]
"""What a model takes as ``attention_mask``: one 4D mask, or one per layer type."""


def block_numbers(blocks: Sequence[Span], n_tokens: int) -> Tensor:
    """(T,) the block each token is in, -1 outside every block."""
    numbers = torch.full((n_tokens,), -1)
    for i, span in enumerate(blocks):
        numbers[span.start : span.stop] = i
    return numbers


def may_read(numbers: Tensor, visible: Tensor) -> Tensor:
    """Who may read whom, from who sees which block.

    ``numbers`` is (T,) as ``block_numbers`` makes it. ``visible`` is bool, (..., 1, N) when every row sees the
    same blocks or (..., T, N) when each row has its own. Returns (..., T, T) bool.

    Tokens outside every block are always visible, and a hidden block still reads itself: the operator
    hides it from every query *outside* the block.
    """
    n_tokens = len(numbers)
    in_block = numbers >= 0
    columns = visible[..., numbers.clamp(min=0)] | ~in_block  # (..., 1 or T, T)
    own = (numbers[:, None] == numbers[None, :]) & in_block
    causal = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
    return (columns | own) & causal


def keep_table(keep: frozenset[int], n_blocks: int) -> Tensor:
    """(1, N) bool: one visibility row for every query position."""
    table = torch.zeros(1, n_blocks, dtype=torch.bool)
    table[0, sorted(keep)] = True
    return table


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, R, S) bool -> (B, 1, R, S): 0 where reading is allowed, the fill elsewhere."""
    zero = torch.zeros((), dtype=dtype, device=allowed.device)
    return torch.where(allowed, zero, torch.full_like(zero, FILL))[:, None]


def model_mask(
    windows: Windows, allowed: Tensor, row_positions: Tensor, column_positions: Tensor, dtype: torch.dtype
) -> ModelMask:
    """The mask in the form a model with ``windows`` takes.

    ``allowed`` is (B, R, S) bool; positions, (B, R) and (B, S), are those of the whole context: a window
    counts positions, not the slots that happen to be computed.
    """
    if windows is None:
        return additive(allowed, dtype)
    masks = {}
    for kind, window in windows.items():
        near = True if window is None else row_positions[:, :, None] - column_positions[:, None, :] < window
        masks[kind] = additive(allowed & near, dtype)
    # Models with one kind of layer take the mask itself; only mixed models read a dictionary.
    return next(iter(masks.values())) if len(masks) == 1 else masks


def expand(mask: ModelMask, batch: int) -> ModelMask:
    """One mask for ``batch`` rows, without copying it."""
    if isinstance(mask, dict):
        return {kind: part.expand(batch, -1, -1, -1) for kind, part in mask.items()}
    return mask.expand(batch, -1, -1, -1)

"""Stage 3b: per-block scores read from one forward pass.

    from keepset.readouts import adaptive_set, answer_attention, pool_attention

    attention = answer_attention(model, tokens, blocks)        # (B, L, H, N)
    scores = pool_attention(attention, heads="max")            # (B, N)
    adaptive_set(scores)                                       # (B, N) bool

Every readout is called ``f(model, tokens, blocks, ...)``: a causal LM in evaluation mode, ``tokens`` (B, T) whose
last row predicts the answer, and the blocks they all share. One example is ``example.tokens[None]`` and
``example.blocks``. It returns float32 on the CPU: (B, L, H, N) where a layer and a head have a score of their own
(``pool_attention`` makes it (B, N)), else (B, N). ``rows`` is the span of the query rows that look.

Attention is computed a few rows at a time and reduced to blocks in the layer: no (T, T) matrix of probabilities is
held. ``attention_rollout`` and ``backward_trace`` hold the queries and keys of all layers and go down through them
afterwards. Inside ``with shared_layers():`` several readouts of the same tokens cost one forward.

Reading order: ``layers`` (one clean forward, seen layer by layer), ``attention``, ``adaptive``, ``paths``,
``rollout``, ``trace``, ``saliency``, ``reconstruction``.
"""

from collections.abc import Callable

from torch import Tensor

from keepset.readouts.adaptive import adaptive_set
from keepset.readouts.attention import (
    accumulated_attention,
    all_position_attention,
    answer_attention,
    pool_attention,
    window_attention,
)
from keepset.readouts.layers import SharedLayers, shared_layers
from keepset.readouts.reconstruction import output_reconstruction
from keepset.readouts.rollout import attention_rollout
from keepset.readouts.saliency import input_saliency
from keepset.readouts.trace import backward_trace

READOUTS: dict[str, Callable[..., Tensor]] = {
    "answer": answer_attention,
    "accumulated": accumulated_attention,
    "all_position": all_position_attention,
    "window": window_attention,
    "rollout": attention_rollout,
    "trace": backward_trace,
    "saliency": input_saliency,
    "reconstruction": output_reconstruction,
}
"""Every readout. ``window`` and ``reconstruction`` also take ``rows``, ``saliency`` the ``answers``."""

__all__ = [
    "READOUTS",
    "SharedLayers",
    "accumulated_attention",
    "adaptive_set",
    "all_position_attention",
    "answer_attention",
    "attention_rollout",
    "backward_trace",
    "input_saliency",
    "output_reconstruction",
    "pool_attention",
    "shared_layers",
    "window_attention",
]

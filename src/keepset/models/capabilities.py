"""Which models the interventions are exact on, and which masks those models need.

Everything keepset computes rests on one equation: hiding a block from everybody with a mask gives the same
numbers as leaving its tokens out and keeping the positions of the others. ``check_supported`` refuses models
where that is known to fail, with the reason, and then tries the equation on the model itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.models.masks import ModelMask, Windows, model_mask

PROBE_TOKENS = 12
PROBE_HIDDEN = slice(4, 8)
PROBE_WINDOW = 3
"""Shorter than the probe, so that a wrong window shows; real windows are longer than a cheap probe."""

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
"""Allowed difference, as a share of what hiding the block changes; lower precisions get ``LOOSE``."""
LOOSE = 0.25
ROUNDING = 1e-5
"""Allowed besides, as a share of the largest logit."""

LAYER_TYPES = ("full_attention", "sliding_attention")
ALIBI_TYPES = ("bloom",)
LOCAL_SLOT_TYPES = ("gpt_neo",)
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""yarn, llama3 and linear scaling are fixed when the model is built, so they are fine."""
CAPACITY_FIELDS = ("expert_capacity", "expert_capacity_factor", "moe_capacity_factor", "capacity_factor")
TOP_KEYS_FIELDS = ("keep_window_size", "index_topk")
"""How many keys a layer reads, the highest ranked ones, once there are more: hidden keys would take places."""
MASKED_ATTENTION = ("eager", "sdpa")
"""Attention implementations that read a 4D mask."""

_PROBED: WeakKeyDictionary[PreTrainedModel, tuple[tuple[object, ...], str | None]] = WeakKeyDictionary()
"""Model -> how it was set up when it was probed, and what came out."""
_PROBING = Lock()
"""A probe shortens the model's window for a moment: a second thread waits for the first one's verdict."""


def check_supported(model: PreTrainedModel) -> None:
    """Raises ValueError with the reason when interventions on ``model`` would not be exact.

    A model is probed once, and again when its dtype, device or attention implementation has changed.
    """
    reason = _refusal(model) or _probed(model)
    if reason:
        raise ValueError(
            f"{type(model).__name__} ({model.config.model_type}) is not supported: {reason}. "
            "Models that work: decoder-only, rotary or learned positions, full or sliding-window attention "
            "(Llama, Qwen2, Qwen3, Mistral, Gemma, Phi-3, Mixtral, GPT-2, GPT-NeoX, ...)"
        )


def sliding_windows(model: PreTrainedModel) -> Windows:
    """Layer type -> window, for every kind of mask the model needs; None when one plain causal mask serves.

    A token reads itself and the ``window - 1`` positions before it; a window of None reads everything. Several
    kinds go to the model as ``attention_mask={kind: mask}``, a single kind (Mistral) as one mask for all layers.
    """
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds = set(getattr(config, "layer_types", None) or ())
    if window is None or kinds == {"full_attention"}:
        return None
    if not kinds:
        return {"sliding_attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(kinds)}


def causal_mask(model: PreTrainedModel, positions: Tensor) -> ModelMask | None:
    """For rows at (B, T) ``positions`` that read all before them, cut to each layer's window.

    None where ``sdpa`` is causal by itself: without a mask of (T, T) it is faster and long contexts fit.
    """
    windows = sliding_windows(model)
    if windows is None and model.config._attn_implementation == "sdpa":
        return None
    n = positions.shape[1]
    causal = torch.ones(1, n, n, dtype=torch.bool, device=positions.device).tril()
    return model_mask(windows, causal.expand(len(positions), -1, -1), positions, positions, model.dtype)


def caches_latents(model: PreTrainedModel) -> bool:
    """The cache holds what keys and values are computed from, not those attention reads (DeepSeek's MLA)."""
    return bool(getattr(model.config.get_text_config(), "kv_lora_rank", None))


def position_limit(model: PreTrainedModel) -> int | None:
    """How many positions the model was built for; None when its config does not say."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit else None


def check_vocabulary(model: PreTrainedModel, ids: Tensor, name: str) -> None:
    """Token ids the model has."""
    size = int(model.config.get_text_config().vocab_size)
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        raise ValueError(f"{name}: expected ids in [0, {size}), got {low} to {high}; use the model's own tokenizer")


def check_positions(model: PreTrainedModel, needed: int, name: str, found: str = "") -> None:
    """No more positions than the model was built for. ``found`` says what they come from."""
    limit = position_limit(model)
    if limit is not None and needed > limit:
        raise ValueError(
            f"{name}: expected at most {limit} positions (max_position_embeddings of {type(model).__name__}), "
            f"got {found or needed}; shorten the context or use a model with a longer one"
        )


def _refusal(model: PreTrainedModel) -> str | None:
    """Why the model is known not to work, from its configuration."""
    config = model.config.get_text_config()
    kind = config.model_type
    if model.config.is_encoder_decoder:
        return "it is an encoder-decoder: the context is read by an encoder, not by causal attention"
    if not getattr(config, "is_causal", True) or getattr(config, "use_bidirectional_attention", False):
        return "its attention is bidirectional: what stands before a hidden block would depend on it"
    if getattr(model, "_is_stateful", False):
        return "it has a recurrent state (state-space or linear-attention layers), which no attention mask can hide"
    others = sorted(set(getattr(config, "layer_types", None) or ()) - set(LAYER_TYPES))
    if others:
        return f"layers of type {', '.join(others)} cannot be given a mask; only full and sliding attention can"
    if kind in ALIBI_TYPES or getattr(config, "alibi", False) or _attn_config(config, "alibi"):
        return "it uses ALiBi: attention is biased by distance in slots, so left-out tokens move the others"
    if kind in LOCAL_SLOT_TYPES:
        return "its local attention counts slots inside the model, so left-out tokens move the window"
    rope = sorted(set(_rope_types(config)) & set(LENGTH_DEPENDENT_ROPE))
    if rope:
        return f"its rotary positions ({', '.join(rope)}) depend on the current length, so cached keys go stale"
    for field in CAPACITY_FIELDS:
        if getattr(config, field, None):
            return (
                f"its experts have a limited capacity ({field}={getattr(config, field)}): "
                "which token an expert drops depends on the other tokens"
            )
    limit = position_limit(model)
    for field in TOP_KEYS_FIELDS:
        most = getattr(config, field, None)
        if most and (limit is None or most < limit):
            return (
                f"its layers read only the {most} keys they rank first ({field}), and hidden ones take places among "
                f"them; set max_position_embeddings to {most} if your texts are no longer than that"
            )
    implementation = config._attn_implementation
    if implementation not in MASKED_ATTENTION:
        return (
            f"its attention implementation {implementation!r} reads no 4D mask; "
            f"load it with attn_implementation={' or '.join(map(repr, MASKED_ATTENTION))}"
        )
    return None


def _attn_config(config: Any, field: str) -> bool:
    return bool(getattr(getattr(config, "attn_config", None), field, False))


def _rope_types(config: Any) -> Iterator[str]:
    """Every rope_type of a config; some architectures have one per layer type."""
    parameters = getattr(config, "rope_parameters", None) or {}
    for entry in (parameters, *parameters.values()):
        if isinstance(entry, dict) and "rope_type" in entry:
            yield entry["rope_type"]


def _probed(model: PreTrainedModel) -> str | None:
    setup = (model.dtype, model.device, model.config._attn_implementation)
    with _PROBING:
        known = _PROBED.get(model)
        if known is None or known[0] != setup:
            known = _PROBED[model] = (setup, _probe(model))
    return known[1]


@torch.no_grad()
def _probe(model: PreTrainedModel) -> str | None:
    """Tries the equation on a few random tokens; catches every architecture the list above does not know."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = int(model.config.get_text_config().vocab_size)
    tokens = torch.randint(vocabulary, (1, PROBE_TOKENS), generator=generator).to(model.device)
    positions = torch.arange(PROBE_TOKENS, device=model.device)
    causal = positions[:, None] >= positions[None, :]  # (T, T)
    kept = torch.ones_like(positions, dtype=torch.bool)
    kept[PROBE_HIDDEN] = False
    hiding = causal & (kept[None, :] | ~kept[:, None])  # nobody outside the block reads it

    def run(visible: Tensor | None, rows: Tensor) -> Tensor:
        arguments: dict[str, Any] = {}
        if visible is not None:
            at = positions[rows][None]
            mask = model_mask(sliding_windows(model), visible[rows][:, rows][None], at, at, model.dtype)
            arguments = {"attention_mask": mask, "position_ids": at}
        logits: Tensor = model(input_ids=tokens[:, rows], use_cache=False, **arguments).logits[0].float()
        return logits

    everything = torch.ones_like(kept)
    try:
        with _probing(model):
            plain, masked = run(None, everything), run(causal, everything)
            hidden, dropped = run(hiding, everything)[kept], run(hiding, kept)
    except Exception as error:
        return f"it does not take explicit masks and positions ({type(error).__name__}: {error})"
    effect = float((plain[kept] - hidden).abs().max())
    limit = TOLERANCE.get(model.dtype, LOOSE) * effect + ROUNDING * float(plain.abs().max())
    for one, two, reason in (
        (
            plain,
            masked,
            "an explicit causal mask changes its output, so its own mask is not the one its config declares",
        ),
        (hidden, dropped, "hiding a block is not the same as leaving its tokens out and keeping the other positions"),
    ):
        difference = float((one - two).abs().max())
        if not difference <= limit:  # also when NaN
            return f"{reason} (largest logit difference {difference:.2g}, allowed {limit:.2g})"
    return None


@contextmanager
def _probing(model: PreTrainedModel) -> Iterator[None]:
    """Dropout off, and a window short enough to matter in a short probe; both put back."""
    config = model.config.get_text_config()
    training, window = model.training, getattr(config, "sliding_window", None)
    model.eval()
    if window is not None:
        config.sliding_window = min(window, PROBE_WINDOW)
    try:
        yield
    finally:
        model.train(training)
        if window is not None:
            config.sliding_window = window

"""One clean forward pass, seen layer by layer, with attention computed a few rows at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.blocks import Span, check_spans
from keepset.models.attention import Attention, AttentionCall, wrapped_attention
from keepset.models.cache import KeysValues, lend
from keepset.models.capabilities import (
    MASKED_ATTENTION,
    caches_latents,
    causal_mask,
    check_positions,
    check_vocabulary,
)
from keepset.models.masks import ModelMask, additive, expand

CHUNK = 2**22
"""How many attention probabilities of a layer are held at once, over batch, heads, rows and keys.

What no longer fits a processor's cache between scores and sums is read from memory again.
"""

UNREAD = ("s_aux", "position_bias")
"""What some architectures add to the attention scores, and ``Layer`` does not."""

TOLERANCE = 1e-3
"""Allowed difference to the layer's own output, as a share of the largest. Lower precisions cannot tell."""


@dataclass(frozen=True, eq=False)
class Layer:
    """What one layer attends with. Query heads may share key heads."""

    query: Tensor
    """(B, H, T, D)"""
    key: Tensor
    """(B, H or fewer, T, D)"""
    value: Tensor
    """(B, H or fewer, T, D)"""
    mask: Tensor | None
    """(B, 1, T, T), added to the scores; None is plain causal."""
    scale: float
    softcap: float | None

    def attention(self, rows: Span) -> Tensor:
        """(B, H, rows, keys) probabilities in float32; the keys end with the last of ``rows``."""
        query = self.query[:, :, rows.start : rows.stop].float()
        shared = query.unflatten(1, (self.key.shape[1], -1)).flatten(2, 3)  # heads that share keys, row after row
        scores: Tensor = shared @ self.key[:, :, : rows.stop].float().mT
        scores = scores.mul_(self.scale).reshape(*query.shape[:3], -1)
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        if self.mask is not None:
            return (scores + self.mask[:, :, rows.start : rows.stop, : rows.stop].float()).softmax(-1)
        future = torch.ones(len(rows), len(rows), dtype=torch.bool, device=scores.device).triu(1)
        scores[..., rows.start :].masked_fill_(future, -torch.inf)
        return scores.softmax(-1)

    def values(self, stop: int) -> Tensor:
        """(B, H, stop, D) in float32."""
        return self._per_head(self.value[:, :, :stop])

    def chunks(self, rows: Span, held_per_row: int = 0) -> Iterator[tuple[Span, Tensor]]:
        """``rows`` in pieces, each with its attention, so that a piece fits ``CHUNK``.

        ``held_per_row`` is what the caller makes of one row of one head, where that is more than its attention.
        """
        batch, heads, n_tokens, _ = self.query.shape
        size = max(1, CHUNK // (batch * heads * max(n_tokens, held_per_row)))
        for start in range(rows.start, rows.stop, size):
            piece = Span(start, min(start + size, rows.stop))
            yield piece, self.attention(piece)

    def _per_head(self, shared: Tensor) -> Tensor:
        return shared.float().repeat_interleave(self.query.shape[1] // shared.shape[1], dim=1)


@dataclass(eq=False)
class _Seen:
    """The layers of one forward."""

    tokens: Tensor
    layers: list[Layer]
    seconds: float
    """What the forward took."""

    @classmethod
    def of(cls, model: PreTrainedModel, tokens: Tensor, context: Sequence[Layer] = ()) -> "_Seen":
        began, layers = time.perf_counter(), list[Layer]()
        _forward_layers(model, tokens, layers.append, context)
        return cls(tokens, layers, time.perf_counter() - began)

    def starts(self, tokens: Tensor) -> bool:
        """``tokens`` are these, and maybe more."""
        held = self.tokens.shape[1]
        return held <= tokens.shape[1] and torch.equal(self.tokens, tokens[:, :held])


@dataclass
class SharedLayers:
    """The last context, and the last text that went on after it."""

    model: PreTrainedModel | None = None
    context: _Seen | None = None
    longer: _Seen | None = None
    spared: float = 0.0
    """Seconds of forwards that were not run again."""

    def layers(self, model: PreTrainedModel, tokens: Tensor) -> list[Layer]:
        if self.model is not model or self.context is None or not self.context.starts(tokens):
            self.context = self.longer = None  # the old ones go before new ones come
            self.model, self.context = model, _Seen.of(model, tokens)
            return self.context.layers
        if tokens.shape[1] == self.context.tokens.shape[1]:
            self.spared += self.context.seconds
            return self.context.layers
        # A mask of (T, T) belongs to all rows, and a cache of latents cannot be filled with keys: read anew.
        anew = clean_mask(model, 1, 1) is not None or caches_latents(model)
        self.spared += 0.0 if anew else self.context.seconds
        if self.longer is None or not torch.equal(self.longer.tokens, tokens):
            self.longer = None
            self.longer = _Seen.of(model, tokens, () if anew else self.context.layers)
        else:
            self.spared += self.longer.seconds
        return self.longer.layers


_SHARED: ContextVar[SharedLayers | None] = ContextVar("shared_layers", default=None)


@contextmanager
def shared_layers(held: SharedLayers | None = None) -> Iterator[SharedLayers]:
    """Inside, readouts of the same tokens cost one forward, and those of a continuation only what it adds.

    Queries, keys and values of all layers are held for that, of the context and of one continuation: 235 MB for
    1,024 tokens of a 1.5B model. What it gives can be handed in later, as ``held``, to go on with the same forward.
    """
    shared = SharedLayers() if held is None else held
    token = _SHARED.set(shared)
    try:
        yield shared
    finally:
        _SHARED.reset(token)


def shares_layers() -> bool:
    """Whether this runs inside ``shared_layers``."""
    return _SHARED.get() is not None


def own_seconds() -> float:
    """A clock on which everything takes what it takes alone: what sharing has spared so far counts too."""
    shared = _SHARED.get()
    return time.perf_counter() + (0.0 if shared is None else shared.spared)


@torch.no_grad()
def visit_layers(model: PreTrainedModel, tokens: Tensor, visit: Callable[[Layer], None]) -> None:
    """One forward of ``tokens``, (B, T), with everything visible; ``visit`` sees the layers from the first on."""
    shared = _SHARED.get()
    if shared is None:
        _forward_layers(model, tokens, visit)
        return
    for layer in shared.layers(model, tokens):
        visit(layer)


def _forward_layers(
    model: PreTrainedModel, tokens: Tensor, visit: Callable[[Layer], None], context: Sequence[Layer] = ()
) -> None:
    """Only the tokens after the ``context`` go through the model; the layers are those of all ``tokens``."""
    seen = 0
    held = context[0].query.shape[2] if context else 0

    def read(call: AttentionCall) -> Attention:
        nonlocal seen
        scale = call.options.get("scaling")
        scale = call.query.shape[-1] ** -0.5 if scale is None else scale
        layer = Layer(call.query, call.key, call.value, call.mask, scale, call.options.get("softcap"))
        if context:
            layer = replace(layer, query=torch.cat([context[seen].query, call.query], dim=2), mask=None)
        seen += 1
        output, weights = call.attend()
        check_layer(call.module, layer, output, call.options)
        visit(layer)
        return output, weights

    n_layers = model.config.get_text_config().num_hidden_layers
    past, mask = None, clean_mask(model, *tokens.shape)  # asks for the model's own attention, so before it is wrapped
    if context:
        keys_values = KeysValues([layer.key for layer in context], [layer.value for layer in context])
        past = lend(keys_values, list(range(len(tokens))), held, n_layers, keep=False)
        shape = (1, tokens.shape[1] - held, tokens.shape[1])
        mask = expand(
            additive(torch.ones(shape, dtype=torch.bool, device=model.device).tril(held), model.dtype), len(tokens)
        )
    with wrapped_attention(model, read):
        model(
            tokens[:, held:].to(model.device),
            attention_mask=mask,
            position_ids=torch.arange(held, tokens.shape[1], device=model.device).expand(len(tokens), -1),
            past_key_values=past,
            use_cache=past is not None,
            logits_to_keep=1,
        )
    if seen != n_layers:
        raise ValueError(
            f"{type(model).__name__}: expected attention through transformers' attention interface in all {n_layers} "
            f"layers, saw it in {seen}; use a model with softmax attention in every layer"
        )


def clean_mask(model: PreTrainedModel, batch: int, n_tokens: int) -> ModelMask | None:
    """The causal mask of ``n_tokens`` in a row; one for the whole batch, whatever its size."""
    mask = causal_mask(model, torch.arange(n_tokens, device=model.device)[None])
    return None if mask is None else expand(mask, batch)


def block_sums(scores: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(..., T) per token -> (..., N) per block."""
    return torch.stack([scores[..., span.start : span.stop].sum(-1) for span in blocks], dim=-1)


def check_layer(module: nn.Module, layer: Layer, output: Tensor, options: dict[str, Any]) -> None:
    """What ``Layer`` computes is the attention of the layer, tried on the last row."""
    name = type(module).__name__
    extra = [key for key in UNREAD if options.get(key) is not None]
    if extra:
        raise ValueError(
            f"{name}: expected attention scores from queries, keys and a mask alone, got {', '.join(extra)} as well; "
            "use a model without attention sinks and position biases"
        )
    if output.dtype not in (torch.float32, torch.float64):
        return
    n_tokens = layer.query.shape[2]
    found = (layer.attention(Span(n_tokens - 1, n_tokens)) @ layer.values(n_tokens))[:, :, 0]  # (B, H, D)
    difference = float((found - output[:, -1]).abs().max())
    allowed = TOLERANCE * float(output[:, -1].abs().max())
    if not difference <= allowed:  # also when NaN
        raise ValueError(
            f"{name}: expected the softmax of scaled, masked scores, but its output differs from that by "
            f"{difference:.2g} (allowed {allowed:.2g}); use a model with plain softmax attention"
        )


def check_inputs(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> None:
    """A model in evaluation mode, tokens it can read, and blocks that lie in them."""
    name = type(model).__name__
    if model.training:
        raise ValueError(f"{name}: expected evaluation mode, got training mode; call model.eval()")
    implementation = model.config._attn_implementation
    if implementation not in MASKED_ATTENTION:
        raise ValueError(
            f"{name}: expected attn_implementation {' or '.join(map(repr, MASKED_ATTENTION))}, got "
            f"{implementation!r}; call model.set_attn_implementation('sdpa')"
        )
    if tokens.ndim != 2 or tokens.numel() == 0 or tokens.is_floating_point():
        raise ValueError(
            f"tokens: expected whole numbers (B, T), got {tokens.dtype} {tuple(tokens.shape)}; "
            "pass example.tokens[None] for one example"
        )
    check_vocabulary(model, tokens, "tokens")
    check_positions(model, tokens.shape[1], "tokens")
    check_blocks(blocks, tokens.shape[1])


def check_blocks(blocks: Sequence[Span], n_tokens: int) -> None:
    """At least one block, all in order, disjoint and inside the tokens."""
    if not blocks:
        raise ValueError("blocks: expected at least one span, got none")
    last = max(span.stop for span in blocks)
    if last > n_tokens:
        raise ValueError(f"blocks: expected to end within the {n_tokens} tokens, got stop {last}")
    # Blocks may reach the last token here (a context without a question), so the query comes after it.
    check_spans(tuple(blocks), Span(n_tokens, n_tokens + 1), n_tokens + 1)


def check_rows(rows: Span, n_tokens: int) -> None:
    """A non-empty span of query rows."""
    if not 0 <= rows.start < rows.stop <= n_tokens:
        raise ValueError(
            f"rows: expected a non-empty span inside the {n_tokens} tokens, got [{rows.start}, {rows.stop}); "
            "pass the question's span, or the last rows of the context"
        )

"""Keys and values of the kept tokens alone, and what a model reads after them.

``global``         only the kept tokens go through the model, at their original positions: nobody ever reads the others
``post_prefill``   everything goes through the model, then the slots of dropped tokens are let go in every layer
``text``           the kept text alone, as a document of its own: what any other engine reads

Three different functions: in the second, kept tokens have read dropped ones; in the third they stand side by side, with
a mark where something was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import KeepSet, Span
from keepset.models.cache import KeysValues, kept, lend
from keepset.models.capabilities import caches_latents, causal_mask, check_positions, sliding_windows
from keepset.models.masks import model_mask
from keepset.readouts.layers import Layer, shares_layers, visit_layers

EvictionMode = Literal["global", "post_prefill", "text"]
MAX_TOKENS = 16_384
"""Of one prefill of several documents, padding included."""


@dataclass(frozen=True, eq=False)
class KeptCache:
    """What is left of a document, one row per layer."""

    layers: KeysValues
    """Per layer (1, H, K, D)."""
    positions: Tensor
    """(K,) where the kept tokens stood in the document."""
    n_tokens: int
    """Of the document as it was read, all of it or under ``text`` what was kept: what follows starts there."""

    @property
    def n_bytes(self) -> int:
        """Held in memory, counted by storage: a slice of a larger tensor holds all of it."""
        held = {part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in self.tensors}
        return sum(held.values())

    @property
    def bytes_per_token(self) -> int:
        return sum(part.shape[1] * part.shape[3] * part.element_size() for part in self.tensors)

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.layers.keys, *self.layers.values]


def kept_positions(n_tokens: int, blocks: Sequence[Span], keep: KeepSet) -> Tensor:
    """(K,) positions of all tokens but those of blocks outside ``keep``."""
    shown = torch.ones(n_tokens, dtype=torch.bool)
    for i, span in enumerate(blocks):
        shown[span.start : span.stop] = i in keep
    return shown.nonzero().flatten()


@torch.inference_mode()
def prefill_kept(
    model: PreTrainedModel, documents: Sequence[tuple[Tensor, Tensor]], mode: EvictionMode
) -> list[KeptCache]:
    """A cache for each (T,) tokens and (K,) positions to keep, all in one forward.

    Under ``text`` the tokens are those of the kept text, and all are kept.
    Shorter documents are padded at the end, where no token of theirs reads the padding.
    Inside ``shared_layers`` a document that is read whole is read once for this and for readouts.
    """
    whole = [torch.arange(len(tokens)) for tokens, _ in documents]
    read = whole if mode == "post_prefill" else [positions for _, positions in documents]
    if shares_layers() and mode != "text" and not caches_latents(model) and all(map(torch.equal, read, whole)):
        return [narrowed(_read_whole(model, tokens), positions) for tokens, positions in documents]
    width = max(len(positions) for positions in read)
    at = torch.stack([torch.cat([p, p[-1:].expand(width - len(p))]) for p in read])  # (B, S)
    tokens = torch.stack([tokens[row] for (tokens, _), row in zip(documents, at, strict=True)])
    layers = model.config.get_text_config().num_hidden_layers
    cache = lend(None, [], 0, layers, keep=True)
    at = at.to(model.device)
    model(
        tokens.to(model.device),
        # Gapped positions without a mask are read as packed sequences, unless a cache is passed: one is.
        attention_mask=causal_mask(model, at),
        position_ids=at,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    left = kept(cache)
    caches = []
    for row, ((own_tokens, positions), computed) in enumerate(zip(documents, read, strict=True)):
        own = KeysValues([part[row : row + 1] for part in left.keys], [part[row : row + 1] for part in left.values])
        caches.append(narrowed(KeptCache(own, computed, len(own_tokens)), positions))
    return caches


def _read_whole(model: PreTrainedModel, tokens: Tensor) -> KeptCache:
    """Keys and values of all (T,) ``tokens``, from the forward that readouts use."""
    layers: list[Layer] = []
    visit_layers(model, tokens[None], layers.append)
    held = KeysValues([layer.key for layer in layers], [layer.value for layer in layers])
    return KeptCache(held, torch.arange(len(tokens)), len(tokens))


def narrowed(cache: KeptCache, positions: Tensor) -> KeptCache:
    """A copy of ``cache`` with the slots of (K,) ``positions`` alone, which are among its own."""
    slots = torch.searchsorted(cache.positions, positions)  # both ascend
    at = slots.to(cache.layers.keys[0].device)
    layers = KeysValues(
        [part.index_select(2, at) for part in cache.layers.keys],
        [part.index_select(2, at) for part in cache.layers.values],
    )
    return KeptCache(layers, positions, cache.n_tokens)


def shortened(cache: KeptCache, n_tokens: int) -> KeptCache:
    """``cache`` without what stands at ``n_tokens`` and after: what follows starts there."""
    if n_tokens == cache.n_tokens:
        return cache
    return replace(narrowed(cache, cache.positions[cache.positions < n_tokens]), n_tokens=n_tokens)


def read_after(model: PreTrainedModel, cache: KeptCache, tokens: Tensor, rows: int) -> tuple[Tensor, KeptCache]:
    """(rows, V) logits of the last ``rows`` of ``tokens``, which follow the document; and the cache grown by them.

    The given cache stays as it was.
    """
    logits, grown = _read(model, Stack.of([cache]), tokens[None], rows)
    return logits[0], KeptCache(grown.layers, grown.positions[0], grown.n_tokens)


def read_after_each(model: PreTrainedModel, caches: Sequence[KeptCache], tokens: Tensor, rows: int) -> Tensor:
    """(B, rows, V) the same ``tokens`` after each of several caches of one size, in one forward."""
    return _read(model, Stack.of(caches), tokens.expand(len(caches), -1), rows)[0]


def read_side_by_side(
    model: PreTrainedModel, cache: KeptCache, texts: Sequence[Tensor], rows: Sequence[int]
) -> list[Tensor]:
    """For each of several (T,) texts, each after the same cache, (rows, V) logits of its last ``rows`` tokens.

    Shorter ones are padded at the end, where no token of theirs reads the padding.
    """
    width = max(map(len, texts))
    padding = [width - len(tokens) for tokens in texts]
    tokens = torch.stack([torch.nn.functional.pad(text, (0, more)) for text, more in zip(texts, padding, strict=True)])
    wanted = max(more + count for more, count in zip(padding, rows, strict=True))
    logits, _ = _read(model, Stack.of([cache] * len(texts)), tokens, wanted)
    return [
        found[wanted - more - count : wanted - more] for found, more, count in zip(logits, padding, rows, strict=True)
    ]


def generate(
    model: PreTrainedModel, cache: KeptCache, tokens: Tensor, max_new_tokens: int, stop: frozenset[int]
) -> tuple[int, ...]:
    """The greedy continuation of ``tokens`` after the document, up to and without the first ``stop`` token."""
    return generate_each(model, [cache], tokens, max_new_tokens, stop)[0]


def generate_each(
    model: PreTrainedModel, caches: Sequence[KeptCache], tokens: Tensor, max_new_tokens: int, stop: frozenset[int]
) -> list[tuple[int, ...]]:
    """What ``generate`` gives after each of several caches of one size; they go on together until all have stopped."""
    if not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise ValueError(f"max_new_tokens: expected at least 1, got {max_new_tokens!r}")
    stack = Stack.of(caches)
    check_room(model, stack.n_tokens, len(tokens) + max_new_tokens - 1)
    new = tokens.expand(len(caches), -1)
    written: list[list[int]] = [[] for _ in caches]
    going = set(range(len(caches)))
    for _ in range(max_new_tokens):
        logits, stack = _read(model, stack, new, rows=1)
        chosen = logits[:, -1].argmax(-1)
        going -= {row for row in going if int(chosen[row]) in stop}
        if not going:
            break
        for row in going:
            written[row].append(int(chosen[row]))
        new = chosen[:, None]
    return [tuple(row) for row in written]


@dataclass(frozen=True, eq=False)
class Stack:
    """Caches of one size, one row each."""

    layers: KeysValues
    """Per layer (B, H, K, D)."""
    positions: Tensor
    """(B, K)"""
    n_tokens: int

    @classmethod
    def of(cls, caches: Sequence[KeptCache]) -> "Stack":
        sizes = {(len(cache.positions), cache.n_tokens) for cache in caches}
        if len(sizes) != 1:
            raise ValueError(
                f"caches: expected at least one, all with as many slots and of documents as long, got "
                f"{', '.join(f'{k} of {n}' for k, n in sorted(sizes)) or 'none'}; read them one by one"
            )
        ((_, n_tokens),) = sizes
        if len(caches) == 1:  # no copy
            return cls(caches[0].layers, caches[0].positions[None], n_tokens)
        keys, values = (
            [torch.cat(parts) for parts in zip(*per_cache, strict=True)]
            for per_cache in ([c.layers.keys for c in caches], [c.layers.values for c in caches])
        )
        return cls(KeysValues(keys, values), torch.stack([cache.positions for cache in caches]), n_tokens)


@torch.inference_mode()
def _read(model: PreTrainedModel, stack: Stack, tokens: Tensor, rows: int) -> tuple[Tensor, Stack]:
    """(B, rows, V) logits of the last ``rows`` of (B, new) ``tokens``, and the stack grown by them."""
    device, (batch, n), new = model.device, stack.positions.shape, tokens.shape[1]
    check_room(model, stack.n_tokens, new)
    own = torch.arange(stack.n_tokens, stack.n_tokens + new).expand(batch, -1)
    positions = torch.cat([stack.positions, own], dim=1)
    allowed = torch.ones(1, new, n + new, dtype=torch.bool, device=device).tril(n).expand(batch, -1, -1)
    mask = model_mask(sliding_windows(model), allowed, own.to(device), positions.to(device), model.dtype)
    lent = lend(stack.layers, list(range(batch)), n, len(stack.layers.keys), keep=True)
    logits = model(
        tokens.to(device),
        attention_mask=mask,
        position_ids=own.to(device),
        past_key_values=lent,
        use_cache=True,
        logits_to_keep=rows,
    ).logits
    return logits.float().cpu(), Stack(kept(lent), positions, stack.n_tokens + new)


def check_room(model: PreTrainedModel, used: int, wanted: int) -> None:
    """Dropping tokens frees memory, not positions: what follows stands after the whole document."""
    check_positions(model, used + wanted, "positions", f"a document of {used} tokens and {wanted} after it")

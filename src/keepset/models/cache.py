"""Keys and values, and a transformers cache that lends out a beginning of them without ever growing it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


@dataclass(eq=False)
class KeysValues:
    """What one forward left behind: per layer (B, H, S, D)."""

    keys: list[Tensor]
    values: list[Tensor]


class LentLayer(CacheLayerMixin):
    """The first ``length`` slots of some rows of another forward, read and never written.

    A ``DynamicCache`` appends in place, so two variants that share one would read each other's tokens; and
    built from a config with windows it drops what is more than a window of *slots* away, which is wrong
    where positions have gaps. This one keeps what a forward added only when asked to.
    """

    def __init__(self, past: tuple[Tensor, Tensor] | None, rows: Tensor | int | None, length: int, keep: bool) -> None:
        super().__init__()
        self.past, self.rows, self.length, self.keep = past, rows, length, keep

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.is_initialized = True
        keys, values = key_states, value_states
        if self.past is not None:
            keys, values = (
                torch.cat([self._pick(past, len(new)), new], dim=-2)
                for past, new in zip(self.past, (key_states, value_states), strict=True)
            )
        if self.keep:
            self.keys, self.values = keys, values
        return keys, values

    def _pick(self, past: Tensor, batch: int) -> Tensor:
        past = past[:, :, : self.length]
        if self.rows is None:
            return past
        if isinstance(self.rows, int):  # branches of one row: a view, not one copy per branch
            return past[self.rows : self.rows + 1].expand(batch, -1, -1, -1)
        return past.index_select(0, self.rows)

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        new = query_length if isinstance(query_length, int) else len(query_length)  # positions, before transformers 5.4
        return self.length + new, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        """What older transformers call it; kvpress needs one."""
        return -1


class GrowingLayer(LentLayer):
    """A copy of what one forward left, with room for what is written after it: tokens come one by one, and copying
    all that stands before each would cost a good part of its forward."""

    def __init__(self, past: tuple[Tensor, Tensor], room: int) -> None:
        super().__init__(None, None, past[0].shape[-2], keep=False)
        self.roomy = tuple(pad(part, (0, 0, 0, room)) for part in past)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.is_initialized = True
        begin, self.length = self.length, self.length + key_states.shape[-2]
        for part, new in zip(self.roomy, (key_states, value_states), strict=True):
            part[:, :, begin : self.length] = new
        keys, values = (part[:, :, : self.length] for part in self.roomy)
        return keys, values


def growing(past: KeysValues, room: int) -> Cache:
    """A cache that goes on from ``past``, row by row, for ``room`` tokens more."""
    return Cache(layers=[GrowingLayer(pair, room) for pair in zip(past.keys, past.values, strict=True)])


def lend(past: KeysValues | None, rows: list[int], length: int, layers: int, keep: bool) -> Cache:
    """A cache for a forward whose row b continues row ``rows[b]`` of ``past``."""
    if past is None:
        return Cache(layers=[LentLayer(None, None, 0, keep) for _ in range(layers)])
    index: Tensor | int | None
    if len(set(rows)) == 1:
        index = rows[0]
    elif rows == list(range(len(past.keys[0]))):
        index = None
    else:
        index = torch.tensor(rows, device=past.keys[0].device)
    pairs = zip(past.keys, past.values, strict=True)
    return Cache(layers=[LentLayer(pair, index, length, keep) for pair in pairs])


def kept(cache: Cache) -> KeysValues:
    """What a forward with ``keep`` left in its cache."""
    layers = [layer for layer in cache.layers if isinstance(layer, LentLayer)]
    return KeysValues(
        [layer.keys for layer in layers if layer.keys is not None],
        [layer.values for layer in layers if layer.values is not None],
    )


def without_last(computed: KeysValues, slots: int) -> KeysValues:
    """``computed`` without its last ``slots``, which were read and are not wanted."""
    if not slots:
        return computed
    return KeysValues(
        [part[:, :, :-slots] for part in computed.keys], [part[:, :, :-slots] for part in computed.values]
    )

"""A way into a model's attention that is undone afterwards."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "keepset"
"""The name the wrapped attention function is registered under while it is in use."""

Attention = tuple[Tensor, Tensor | None]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one layer asks its attention function."""

    inner: Callable[..., Attention]
    """The function that the model had."""
    module: nn.Module
    query: Tensor
    """(B, H, T, D)"""
    key: Tensor
    """(B, H or fewer, S, D)"""
    value: Tensor
    """(B, H or fewer, S, D)"""
    mask: Tensor | None
    options: dict[str, Any]
    """What else the layer passes on: its scaling, a softcap."""

    def attend(self) -> Attention:
        return self.inner(self.module, self.query, self.key, self.value, self.mask, **self.options)


Wrapper = Callable[[AttentionCall], Attention]
"""Sees a layer's call, and usually ends with its ``attend``."""


@contextmanager
def wrapped_attention(model: PreTrainedModel, wrapper: Wrapper) -> Iterator[None]:
    """Inside, every layer's attention goes through ``wrapper``.

    transformers' registry of attention functions is the sanctioned way in: nothing is patched.
    """
    if NAME in ALL_ATTENTION_FUNCTIONS:
        raise ValueError("attention: expected one wrapper at a time, got a second; leave the first with-block before")
    before = model.config._attn_implementation

    def missing(module: nn.Module, *args: Any, **kwargs: Any) -> Attention:
        raise ValueError(f"{type(module).__name__}: expected an eager attention function in its file, found none")

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> Attention:
        # "eager" is not in the registry: each model file has its own.
        eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", missing)
        inner = ALL_ATTENTION_FUNCTIONS.get_interface(before, eager)
        return wrapper(AttentionCall(inner, module, query, key, value, attention_mask, kwargs))

    ALL_ATTENTION_FUNCTIONS[NAME] = attend
    try:
        model.set_attn_implementation(NAME)
        yield
    finally:
        model.set_attn_implementation(before)
        del ALL_ATTENTION_FUNCTIONS[NAME]

"""A way into a model's attention that is undone afterwards, and that only the thread that asked for it takes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

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


_WRAPPER: ContextVar[Wrapper | None] = ContextVar("attention_wrapper", default=None)
"""Of this thread: another one that runs the same model sees its own, or none."""


@contextmanager
def wrapped_attention(model: PreTrainedModel, wrapper: Wrapper) -> Iterator[None]:
    """Inside, every layer's attention goes through ``wrapper``.

    transformers' registry of attention functions is the sanctioned way in: nothing is patched. The model's config is
    not touched either, because other threads read from it which mask to make.
    """
    if _WRAPPER.get() is not None:
        raise ValueError("attention: expected one wrapper at a time, got a second; leave the first with-block before")
    token = _WRAPPER.set(wrapper)
    try:
        with _DISPATCH.installed(model.config._attn_implementation):
            yield
    finally:
        _WRAPPER.reset(token)


class _Dispatch:
    """Puts a function that asks for the thread's wrapper in the place of an attention function while one is in use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[str, int] = {}
        self._before: dict[str, Callable[..., Attention] | None] = {}

    @contextmanager
    def installed(self, name: str) -> Iterator[None]:
        with self._lock:
            self._users[name] = self._users.get(name, 0) + 1
            if self._users[name] == 1:
                self._before[name] = ALL_ATTENTION_FUNCTIONS.get(name)  # None for "eager": each model file has its own
                ALL_ATTENTION_FUNCTIONS[name] = _dispatcher(self._before[name])
        try:
            yield
        finally:
            with self._lock:
                self._users[name] -= 1
                if self._users[name] == 0:
                    self._restore(name)

    def _restore(self, name: str) -> None:
        before = self._before.pop(name)
        if before is None:
            del ALL_ATTENTION_FUNCTIONS[name]
        else:
            # Put back, not deleted: a thread that looks it up at that moment would be given eager attention instead.
            ALL_ATTENTION_FUNCTIONS[name] = before


_DISPATCH = _Dispatch()


def _dispatcher(before: Callable[..., Attention] | None) -> Callable[..., Attention]:
    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> Attention:
        inner = _own_eager(module) if before is None else before
        call = AttentionCall(inner, module, query, key, value, attention_mask, kwargs)
        wrapper = _WRAPPER.get()
        return call.attend() if wrapper is None else wrapper(call)

    return attend


def _own_eager(module: nn.Module) -> Callable[..., Attention]:
    found: Callable[..., Attention] | None = getattr(
        sys.modules[type(module).__module__], "eager_attention_forward", None
    )
    if found is None:
        raise ValueError(f"{type(module).__name__}: expected an eager attention function in its file, found none")
    return found

"""What the page computes with: one model for all visitors, limits, and what one visitor has found so far."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.compression.compressor import Compressor
from keepset.explain.plan import duration
from keepset.explain.report import Report

Progress = Callable[[float], None]
"""Is told the share that is done, between 0 and 1."""


@dataclass(frozen=True)
class Limits:
    """What one visitor may take, so that the page stays there for the others."""

    characters: int = 100_000
    """Of a document."""
    question_characters: int = 1_000
    unasked_seconds: float = 60.0
    """Longer work is begun only when the visitor has seen what it costs."""
    most_seconds: float = 600.0
    """Longer work is not begun, and stopped where the estimate was wrong: it belongs on the command line."""
    waiting: int = 16
    """Requests in the queue; one more is turned away."""
    visitors: int = 64
    """Whose findings are kept in memory; then the oldest are forgotten."""


@dataclass(frozen=True)
class Explorer:
    """What every visitor shares."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    """Of the model, for people."""
    compressor: Compressor | None = None
    """The router that ships; None where its reader is not on this machine."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The sentences of a document as a policy ranks them: the same for every budget."""

    title: str
    """Of the policy."""
    read_question: bool
    scores: Tensor
    """(N,) higher is kept first."""
    lengths: tuple[int, ...]
    """Tokens of the sentences."""
    seconds: float


@dataclass(frozen=True)
class FromKept:
    """What the model answers from a part of the document, and what that takes."""

    answer: str
    sentences: int
    tokens: int
    """Of the document, that were read."""
    read_seconds: float
    """Ranking included."""
    write_seconds: float


@dataclass(eq=False)
class Visit:
    """What one visitor has found: never shared with another."""

    report: Report | None = None
    rankings: dict[tuple[str, bool], Ranking] = field(default_factory=dict)
    """By the name of the policy, and whether it reads the question."""
    readings: dict[KeepSet, FromKept] = field(default_factory=dict)
    """By what was kept, without the time of a ranking."""


class OutOfTime(ValueError):
    """Work that took longer than a visitor may take."""


@contextmanager
def watched(model: PreTrainedModel, tokens: int, most_seconds: float, progress: Progress) -> Iterator[None]:
    """Tells ``progress`` after every forward which share of ``tokens`` is read; raises OutOfTime after that long."""
    ends = time.monotonic() + most_seconds
    read = 0

    def after_forward(module: Any, given: tuple[Any, ...], named: dict[str, Any], out: Any) -> None:
        nonlocal read
        if time.monotonic() > ends:
            raise OutOfTime(f"This took longer than {duration(most_seconds)} and was stopped; take a shorter document.")
        read += (given[0] if given else named["input_ids"]).numel()
        progress(min(1.0, read / tokens))

    hook = model.register_forward_hook(after_forward, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()

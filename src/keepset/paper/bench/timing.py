"""Clocks and quartiles: seconds are CPU seconds of one thread, so that a busy machine does not count."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles

import torch

from keepset.paper.result import Coordinate, Metric
from keepset.paper.results import Results

MEDIAN = "median"
QUARTILES = ("q25", MEDIAN, "q75")
"""Values of the coordinate ``quantile``: over units, rounds or documents, not an interval of the median."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread; what it was is given back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def clock(seconds: list[float]) -> Iterator[None]:
    """Appends the CPU seconds spent inside."""
    before = time.process_time()
    yield
    seconds.append(time.process_time() - before)


def rotated(sides: list[str], by: int) -> list[str]:
    """Another side starts each time, so that none is always the first or the last."""
    by %= len(sides)
    return sides[by:] + sides[:by]


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """First over second, round by round."""
    return [a / b for a, b in zip(first, second, strict=True)]


def quartiles(what: str, values: Sequence[float], **at: Coordinate) -> Iterator[Metric]:
    """The median and both quartiles, told apart by the coordinate ``quantile``."""
    found = quantiles(values, n=4, method="inclusive") if len(values) > 1 else list(values) * 3
    for quantile, value in zip(QUARTILES, found, strict=True):
        yield Metric(what=what, at={**at, "quantile": quantile}, value=value, n=len(values))


def bracketed(results: Results, what: str, digits: int, factor: float = 1.0, /, **at: Coordinate) -> str:
    """A median with its quartiles in brackets."""
    low, middle, high = (results.value(what, quantile=quantile, **at) * factor for quantile in QUARTILES)
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def shown_seconds(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.3f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"

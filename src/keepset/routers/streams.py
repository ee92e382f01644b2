"""Where routers read their examples: a stream gives the batch of a step, with one target per arm.

Every step has its own seed or its own rows, so two arms (and two runs) of one stream see the same examples.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from keepset import seeds

BATCH = 64
"""The paper's (appendix C)."""

Stream = Callable[[int], tuple[Tensor, dict[str, Tensor]]]
"""Step -> what routers read, (B, ...), and arm -> target, (B, N) or (B, S, N)."""


def table_stream(tokens: Tensor, targets: dict[str, Tensor], run: int, batch: int = BATCH) -> Stream:
    """Batches of M labelled examples, in a new order every time all have been read.

    ``tokens`` (M, T) and ``targets`` (M, ...) may be of small integer types; a step converts only its own rows.
    """
    count = len(tokens)
    lengths = {name: len(target) for name, target in targets.items()}
    if any(length != count for length in lengths.values()):
        raise ValueError(f"targets: expected one per example ({count} examples), got {lengths}")
    if not 1 <= batch <= count:
        raise ValueError(f"batch: expected 1 to {count} (the examples of the table), got {batch}")
    steps_per_epoch = count // batch

    @lru_cache(maxsize=1)
    def order(epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(seeds.ROUTER_STREAM.seed(run, epoch))
        return torch.randperm(count, generator=generator)

    def stream(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        epoch, place = divmod(step, steps_per_epoch)
        rows = order(epoch)[place * batch : (place + 1) * batch]
        return tokens[rows].long(), {name: target[rows] for name, target in targets.items()}

    return stream

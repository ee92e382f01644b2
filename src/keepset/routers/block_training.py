"""Training block routers: documents of any number of blocks through the one loop of all routers."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from keepset import seeds as seed_ranges
from keepset.routers.block import BlockRouter, ReadModel, Regime, Target
from keepset.routers.losses import KL, Coverage, Loss
from keepset.routers.streams import BATCH, Stream, table_stream
from keepset.routers.training import train_routers

STEPS = 300
"""Fewer than other routers take, which read fresh examples; these read a few hundred documents again and again."""

LOSSES: dict[Target, Loss] = {"causal": Coverage(), "imitation": KL(), "twin": Coverage()}
"""By target."""


def train_block_routers(
    reads: ReadModel,
    regime: Regime,
    layers: int,
    blocks: str | int,
    features: Sequence[Tensor],
    targets: Mapping[Target, Sequence[Tensor]],
    seeds: Sequence[int] = (0,),
    steps: int = STEPS,
    each_step: Callable[[], None] = lambda: None,
) -> dict[Target, list[BlockRouter]]:
    """Target -> one trained router per seed; all see the same documents in the same order and start alike.

    ``blocks`` is how the documents were cut: sentence, paragraph, line, own or a number of tokens.
    ``features`` holds one tensor per document, (N, 2D) or with the question (1 + N, 2D), as ``block_features`` makes
    them. A causal or twin target is (S, N) acceptable sets of a document, an imitation target its (N,) distribution.
    """
    stream = document_stream(features, {str(target): rows for target, rows in targets.items()}, run=0)

    def build(seed: int) -> BlockRouter:
        with torch.random.fork_rng():
            torch.manual_seed(seed_ranges.ROUTER_INIT.seed(seed))
            router = BlockRouter(reads, regime, layers, next(iter(targets)), blocks)
        router.standardise(features)
        return router

    def watched(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        each_step()
        return stream(step)

    arms = train_routers(build, seeds, {target: LOSSES[target] for target in targets}, watched, steps)
    trained = {target: arms[target] for target in targets}
    for target, routers in trained.items():
        for router in routers:
            router.target = target
    return trained


def document_stream(features: Sequence[Tensor], targets: Mapping[str, Sequence[Tensor]], run: int) -> Stream:
    """Batches of documents in a new order every time all have been read; shorter ones end in rows of zeros."""
    numbers = torch.arange(len(features)).unsqueeze(1)
    order = table_stream(numbers, {}, run, min(BATCH, len(features)))

    def stream(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        rows = order(step)[0].flatten().tolist()
        return padded([features[i] for i in rows]), {
            name: padded([target[i] for i in rows]) for name, target in targets.items()
        }

    return stream


def padded(tensors: Sequence[Tensor]) -> Tensor:
    """Stacked; every axis as long as the longest, with zeros at the end."""
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    stacked = tensors[0].new_zeros(len(tensors), *shape)
    for place, tensor in zip(stacked, tensors, strict=True):
        place[tuple(slice(size) for size in tensor.shape)] = tensor
    return stacked

"""Stage 5: small networks that score blocks, their losses, and the one loop that trains them.

    from keepset.routers import Coverage, KL, build_router, score_blocks, table_stream, train_routers

    stream = table_stream(tokens, {"imitation": attention, "causal": family}, run=0)
    trained = train_routers(
        partial(build_router, "pooling", vocabulary, block_width),
        seeds=range(5),
        losses={"imitation": KL(), "causal": Coverage()},
        stream=stream,
    )
    score_blocks(trained["causal"][0], batch)          # (B, N)
    trained["causal"][0].save_pretrained("router/")

Reading order: ``router`` (what a router reads), ``pooling``, ``chain``, ``targets`` (labels as targets),
``losses``, ``streams``, ``training``.
"""

from pathlib import Path

import torch

from keepset import seeds
from keepset.routers.chain import ChainRouter
from keepset.routers.losses import KL, Coverage, Loss, SparseKL
from keepset.routers.pooling import PoolingRouter
from keepset.routers.router import Router, load_saved, router_input, score_blocks
from keepset.routers.streams import Stream, example_batch, renamed_stream, table_stream
from keepset.routers.training import train_routers
from keepset.tasks.vocabulary import Vocabulary

__all__ = [
    "KL",
    "ROUTERS",
    "ChainRouter",
    "Coverage",
    "Loss",
    "PoolingRouter",
    "Router",
    "SparseKL",
    "Stream",
    "build_router",
    "example_batch",
    "load_router",
    "renamed_stream",
    "router_input",
    "score_blocks",
    "table_stream",
    "train_routers",
]

ROUTERS: dict[str, type[Router]] = {PoolingRouter.kind: PoolingRouter, ChainRouter.kind: ChainRouter}


def build_router(kind: str, vocabulary: Vocabulary, block_width: int, seed: int) -> Router:
    """A freshly initialised router; the same seed gives the same weights."""
    if kind not in ROUTERS:
        raise ValueError(f"unknown router {kind!r}; expected one of {', '.join(ROUTERS)}")
    with torch.random.fork_rng():
        torch.manual_seed(seeds.ROUTER_INIT.seed(seed))
        return ROUTERS[kind](vocabulary, block_width)


def load_router(folder: Path, vocabulary: Vocabulary, block_width: int) -> Router:
    """A saved router of either kind, for contexts of this vocabulary and block width."""
    return load_saved(folder, ROUTERS, vocabulary, block_width)

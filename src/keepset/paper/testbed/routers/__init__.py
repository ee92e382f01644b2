"""Routers of the synthetic tasks: pooling and chain, over tokens of their own vocabulary."""

import torch

from keepset import seeds
from keepset.paper.testbed.routers.chain import ChainRouter, DeepChainRouter
from keepset.paper.testbed.routers.pooling import PoolingRouter
from keepset.paper.testbed.routers.router import Router, router_input, score_blocks
from keepset.paper.testbed.routers.streams import example_batch, renamed_stream
from keepset.paper.testbed.tasks.vocabulary import Vocabulary

__all__ = [
    "ROUTERS",
    "ChainRouter",
    "DeepChainRouter",
    "PoolingRouter",
    "Router",
    "build_router",
    "example_batch",
    "renamed_stream",
    "router_input",
    "score_blocks",
]

ROUTERS: dict[str, type[Router]] = {router.kind: router for router in (PoolingRouter, ChainRouter, DeepChainRouter)}


def build_router(kind: str, vocabulary: Vocabulary, block_width: int, seed: int) -> Router:
    """A freshly initialised router; the same seed gives the same weights."""
    if kind not in ROUTERS:
        raise ValueError(f"unknown router {kind!r}; expected one of {', '.join(ROUTERS)}")
    with torch.random.fork_rng():
        torch.manual_seed(seeds.ROUTER_INIT.seed(seed))
        return ROUTERS[kind](vocabulary, block_width)

"""Routed accuracy: does the model still answer when only the best-scored blocks stay visible?

    probe = routed_probe(model, batch)                  # one per model and batch: each keep set runs once
    kept = top_blocks(score_blocks(router, batch), budget_blocks(0.1, 16))        # (B, N) bool
    routed_correct(probe, kept)                         # (B,) bool, so that two selectors can be paired

Every selector is a way to score blocks: a router, a label, the annotated family, chance.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.interventions import Fast, GoldToken, Probe
from keepset.labels import top_k
from keepset.pruning.budget import Budget


def budget_blocks(fraction: float, n_blocks: int) -> int:
    """How many blocks a budget of ``fraction`` keeps: rounded up, as the paper does."""
    return Budget.share_of_blocks(fraction).limit([1] * n_blocks)


def top_blocks(scores: Tensor, k: int) -> Tensor:
    """(B, N) scores -> (B, N) bool: the k best blocks of each example; of equal ones the lower."""
    n_blocks = scores.shape[-1]
    if not 1 <= k <= n_blocks:
        raise ValueError(f"budget: expected 1 to {n_blocks} blocks (the context has {n_blocks}), got {k}")
    if bool(scores.isnan().any()):
        raise ValueError("scores: expected numbers, got NaN; the selector that made them is broken")
    return top_k(scores, k)


def routed_probe(model: PreTrainedModel, batch: ExampleBatch) -> Probe:
    """Scores keep sets of ``batch`` by the gold token; selectors that agree on an example share its forward."""
    return Probe(batch, Fast(model), GoldToken())


def routed_correct(probe: Probe, kept: Tensor) -> Tensor:
    """(B,) bool: the answer is given when example b reads only the blocks ``kept[b]`` (B, N) and the query."""
    if len(kept) != len(probe):
        raise ValueError(f"kept: expected one row per example ({len(probe)}), got {len(kept)}")
    asks = [(i, frozenset(row.nonzero().flatten().tolist())) for i, row in enumerate(kept)]
    return torch.tensor([score.correct for score in probe.score(asks)])


def family_scores(family: Tensor) -> Tensor:
    """(B, S, N) -> (B, N) the oracle: the blocks of the first set, then of the next, then all others.

    Equal scores fall to the lower block, so each group is kept in the order of the context.
    """
    n_sets = family.shape[1]
    value = torch.arange(n_sets, 0, -1).view(1, -1, 1)
    return (family * value).amax(1).float()


def random_scores(n_examples: int, n_blocks: int, seed: int) -> Tensor:
    """(B, N) random gates: every block is as likely as any other."""
    return torch.rand(n_examples, n_blocks, generator=torch.Generator().manual_seed(seed))


def chain_blocks(batch: ExampleBatch) -> Tensor:
    """(B, K) the blocks of the first annotated chain in the order it is followed: first pointer, ..., value.

    A family is a set without order; the order is in the tokens, so the chain is walked from the query.
    """
    annotated = batch.family[:, 0]
    lengths = annotated.sum(1)
    length = int(lengths[0])
    if bool((lengths != length).any()) or length < 2:
        raise ValueError(
            f"chains: expected annotated sets of one size, at least 2, got sizes {sorted(set(lengths.tolist()))}; "
            "only multi-hop conditions have chains"
        )
    starts = torch.tensor([span.start for span in batch.blocks])
    keys = torch.stack([batch.tokens[:, starts + 1], batch.tokens[:, starts + 2]], dim=-1)  # (B, N, 2)
    targets = torch.stack([batch.tokens[:, starts + 3], batch.tokens[:, starts + 4]], dim=-1)
    asked = batch.tokens[:, batch.context_tokens + 1 : batch.context_tokens + 3]  # (B, 2)
    rows = torch.arange(len(batch))
    chain = []
    for _ in range(length):
        found = (keys == asked.unsqueeze(1)).all(-1) & annotated
        if bool((found.sum(1) != 1).any()):
            raise ValueError("chains: expected one annotated record per step from the query, got none or several")
        block = found.int().argmax(1)
        chain.append(block)
        asked = targets[rows, block]
    return torch.stack(chain, dim=1)


def chain_recall(kept: Tensor, chain: Tensor) -> Tensor:
    """(B, K) bool: is the first pointer, ..., the value of each chain kept? ``.all(1)`` is full-chain recall."""
    return kept.gather(1, chain)

"""Contexts in which keys repeat: the layout shared by latest-write and duplicate-evidence tasks."""

from dataclasses import dataclass

import numpy as np

from keepset.paper.testbed.tasks.sheet import ask, distinct_keys, permute, pick
from keepset.paper.testbed.tasks.vocabulary import Ids, Vocabulary


@dataclass
class Groups:
    """Records grouped by key. Group 0 is queried first and has a chosen size; the rest vary."""

    group: Ids
    """(B, N) group number of the record at each position."""
    keys: Ids
    """(B, G) key of each group."""
    queried: Ids
    """(B, Q) group asked for."""
    asked: Ids
    """(B, Q) as in Sheet."""


def sample_groups(
    rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, first: int, vocabulary: Vocabulary
) -> Groups:
    """About two records per key: ``first`` in group 0, at least one in each other group, extras at random."""
    if first < 1:
        raise ValueError(f"expected at least 1 record of the queried key, got {first}")
    n_groups = min(max(2, n_blocks // 2), n_blocks - first + 1)
    if n_groups < 2:
        raise ValueError(
            f"{first} records of the queried key do not fit beside another key in {n_blocks} blocks; "
            f"expected at least {first + 1} blocks"
        )
    extras = n_blocks - first - (n_groups - 1)
    slots = np.concatenate(
        [
            np.zeros((batch, first), dtype=np.int64),
            np.broadcast_to(np.arange(1, n_groups), (batch, n_groups - 1)),
            rng.integers(1, n_groups, size=(batch, extras)),
        ],
        axis=1,
    )
    others = 1 + permute(rng, batch, n_groups - 1)
    queried, asked = ask(np.concatenate([np.zeros((batch, 1), dtype=np.int64), others], axis=1), n_queries)
    return Groups(
        group=pick(slots, permute(rng, batch, n_blocks)),
        keys=distinct_keys(rng, batch, n_groups, vocabulary.keys),
        queried=queried,
        asked=asked,
    )

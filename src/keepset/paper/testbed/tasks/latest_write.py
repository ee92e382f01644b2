"""Latest write: a key is written several times and the last write counts."""

from dataclasses import dataclass

import numpy as np

from keepset.paper.testbed.tasks.groups import sample_groups
from keepset.paper.testbed.tasks.sheet import NO_POINTER, Sheet, pick
from keepset.paper.testbed.tasks.vocabulary import Vocabulary


@dataclass(frozen=True)
class LatestWrite:
    """
    block      0              1              2               query
    tokens     WRITE f3 m1 v7 WRITE f0 m2 v1 WRITE f3 m1 v9  QUERY f3 m1 -> v9
    evidence                                 ^^^^^^^^^^^^^^  family {{2}}; block 0 is obsolete
    """

    stale: int = 2
    """How many obsolete writes of the queried key stand before the current one."""

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet:
        groups = sample_groups(rng, batch, n_blocks, n_queries, self.stale + 1, vocabulary)
        n_groups = groups.keys.shape[1]
        same = groups.group[:, :, None] == groups.group[:, None, :]  # (B, N, N)
        current = ~np.triu(same, 1).any(axis=2)  # (B, N) nobody later writes the same key
        final = rng.integers(vocabulary.values, size=(batch, n_groups))
        # An obsolete value differs from the current one, so answering with it is an error.
        shift = rng.integers(1, vocabulary.values, size=(batch, n_blocks))
        values = (pick(final, groups.group) + np.where(current, 0, shift)) % vocabulary.values
        return Sheet(
            keys=pick(groups.keys, groups.group),
            values=values,
            pointers=np.full((batch, n_blocks), NO_POINTER),
            query_keys=pick(groups.keys, groups.queried),
            whole_family=False,
            answers=vocabulary.value_token(pick(final, groups.queried)),
            asked=groups.asked,
            family=(current & (groups.group == 0))[:, None, :],
        )

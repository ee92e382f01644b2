"""Duplicate evidence: several identical records, each sufficient alone."""

from dataclasses import dataclass

import numpy as np

from keepset.paper.testbed.tasks.groups import sample_groups
from keepset.paper.testbed.tasks.sheet import NO_POINTER, Sheet, pick
from keepset.paper.testbed.tasks.vocabulary import Vocabulary


@dataclass(frozen=True)
class Duplicate:
    """
    block      0              1              2               query
    tokens     WRITE f3 m1 v7 WRITE f0 m2 v1 WRITE f3 m1 v7  QUERY f3 m1 -> v7
    evidence   ^^^^^^^^^^^^^^                ^^^^^^^^^^^^^^  family {{0}, {2}}
    """

    copies: int = 2
    """How many identical records of the queried key (the paper's m)."""

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet:
        groups = sample_groups(rng, batch, n_blocks, n_queries, self.copies, vocabulary)
        values = rng.integers(vocabulary.values, size=groups.keys.shape)
        copy_positions = (groups.group != 0).argsort(axis=1, kind="stable")[:, : self.copies]  # (B, m)
        family = np.zeros((batch, self.copies, n_blocks), dtype=bool)
        np.put_along_axis(family, copy_positions[:, :, None], True, axis=2)
        return Sheet(
            keys=pick(groups.keys, groups.group),
            values=pick(values, groups.group),
            pointers=np.full((batch, n_blocks), NO_POINTER),
            query_keys=pick(groups.keys, groups.queried),
            whole_family=False,
            answers=vocabulary.value_token(pick(values, groups.queried)),
            asked=groups.asked,
            family=family,
        )

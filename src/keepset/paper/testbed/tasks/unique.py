"""Unique retrieval: one record has the queried key."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from keepset.paper.testbed.tasks.sheet import NO_POINTER, Sheet, ask, distinct_keys, indicator, permute, pick
from keepset.paper.testbed.tasks.vocabulary import Vocabulary


@dataclass(frozen=True)
class Unique:
    """
    block      0              1              2               query
    tokens     WRITE f3 m1 v7 WRITE f0 m2 v1 WRITE f3 m4 v9  QUERY f0 m2 -> v1
    evidence                  ^^^^^^^^^^^^^^                 family {{1}}
    """

    family_distractors: int | None = None
    """How many other records share the queried key's family token; None leaves it to chance."""

    shared: Literal["family", "member"] | None = None
    """All records share this half of the key, so the other half alone tells them apart. For training:
    a teacher shown both kinds learns to match both halves at once, where on random keys it rests for
    hundreds of steps at matching one half."""

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet:
        # Slot 0 is the queried record; slots are shuffled into positions at the end.
        if self.family_distractors is not None and self.shared is not None:
            raise ValueError("unique: expected family_distractors or shared, got both")
        if self.family_distractors is not None:
            keys = self._with_distractors(rng, batch, n_blocks, vocabulary)
        elif self.shared is not None:
            keys = self._with_shared_half(rng, batch, n_blocks, vocabulary)
        else:
            keys = distinct_keys(rng, batch, n_blocks, vocabulary.keys)
        values = rng.integers(vocabulary.values, size=(batch, n_blocks))
        place = permute(rng, batch, n_blocks)  # (B, N) the slot that stands at each position
        others = 1 + permute(rng, batch, n_blocks - 1)
        order = np.concatenate([np.zeros((batch, 1), dtype=np.int64), others], axis=1)
        queried, asked = ask(order, n_queries)
        position = place.argsort(axis=1)  # (B, N) where each slot went
        return Sheet(
            keys=pick(keys, place),
            values=pick(values, place),
            pointers=np.full((batch, n_blocks), NO_POINTER),
            query_keys=pick(keys, queried),
            whole_family=False,
            answers=vocabulary.value_token(pick(values, queried)),
            asked=asked,
            family=indicator(position[:, :1], n_blocks),
        )

    def _with_distractors(
        self, rng: np.random.Generator, batch: int, n_blocks: int, vocabulary: Vocabulary
    ) -> np.ndarray:
        """(B, N) distinct keys: the first, then exactly ``family_distractors`` of its family, then other families."""
        count = self.family_distractors or 0
        members = vocabulary.members
        if count > min(members, n_blocks) - 1:
            raise ValueError(
                f"family_distractors must be at most {min(members, n_blocks) - 1} "
                f"({members} members, {n_blocks} blocks), got {count}"
            )
        if n_blocks - 1 - count > vocabulary.keys - members:
            raise ValueError(
                f"more records than keys: {n_blocks - 1 - count} records outside the queried family, "
                f"the other families have {vocabulary.keys - members} keys"
            )
        family = rng.integers(vocabulary.families, size=(batch, 1))
        near = family * members + permute(rng, batch, members)[:, : count + 1]
        far = permute(rng, batch, vocabulary.keys - members)[:, : n_blocks - 1 - count]
        far = far + members * (far >= family * members)  # skip the queried family
        return np.concatenate([near, far], axis=1)

    def _with_shared_half(
        self, rng: np.random.Generator, batch: int, n_blocks: int, vocabulary: Vocabulary
    ) -> np.ndarray:
        """(B, N) distinct keys in one row or one column of the families-times-members grid."""
        room = vocabulary.members if self.shared == "family" else vocabulary.families
        if n_blocks > room:
            raise ValueError(
                f"more records than keys: {n_blocks} records that share a {self.shared}, the vocabulary has {room}"
            )
        if self.shared == "family":
            families = rng.integers(vocabulary.families, size=(batch, 1))
            members = permute(rng, batch, vocabulary.members)[:, :n_blocks]
        else:
            families = permute(rng, batch, vocabulary.families)[:, :n_blocks]
            members = rng.integers(vocabulary.members, size=(batch, 1))
        return np.asarray(families * vocabulary.members + members)

"""Aggregation: how many records does a family have? Every marked block is needed."""

from dataclasses import dataclass

import numpy as np

from keepset.paper.testbed.tasks.sheet import NO_POINTER, Sheet, ask, permute, pick
from keepset.paper.testbed.tasks.vocabulary import MAX_COUNT, Ids, Vocabulary


@dataclass(frozen=True)
class Aggregation:
    """
    block      0              1              2               query
    tokens     WRITE f3 m1 v7 WRITE f0 m2 v1 WRITE f3 m4 v9  QUERY f3 ALL -> #2
    evidence   ^^^^^^^^^^^^^^                ^^^^^^^^^^^^^^  family {{0, 2}}
    """

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet:
        counts = self._counts(rng, batch, n_blocks, vocabulary)  # (B, F) by slot; slot 0 is asked first
        naming = permute(rng, batch, vocabulary.families)  # (B, F) slot -> family
        slot_of_record = (np.arange(n_blocks)[None, :, None] >= counts.cumsum(axis=1)[:, None, :]).sum(axis=2)
        rank = np.arange(n_blocks) - pick(counts.cumsum(axis=1) - counts, slot_of_record)
        members = permute(rng, batch * vocabulary.families, vocabulary.members)
        members = members.reshape(batch, vocabulary.families, vocabulary.members)
        rows = np.arange(batch)[:, None]
        keys = pick(naming, slot_of_record) * vocabulary.members + members[rows, slot_of_record, rank]
        place = permute(rng, batch, n_blocks)
        # Only families with 1 to MAX_COUNT records can be asked for; the first always can.
        askable = (counts >= 1) & (counts <= MAX_COUNT)
        priority = np.where(askable, rng.random(counts.shape), 2.0)
        priority[:, 0] = -1.0
        queried, asked = ask(priority.argsort(axis=1), n_queries)
        asked = asked & pick(askable, queried)
        # A slot that asks nothing repeats the first query, so that its answer is still true.
        queried = np.where(asked, queried, 0)
        return Sheet(
            keys=pick(keys, place),
            values=rng.integers(vocabulary.values, size=(batch, n_blocks)),
            pointers=np.full((batch, n_blocks), NO_POINTER),
            query_keys=pick(naming, queried) * vocabulary.members,
            whole_family=True,
            answers=vocabulary.count_token(pick(counts, queried)),
            asked=asked,
            family=pick(slot_of_record == 0, place)[:, None, :],
        )

    def _counts(self, rng: np.random.Generator, batch: int, n_blocks: int, vocabulary: Vocabulary) -> Ids:
        """(B, F) records per family slot: the first uniform on 1..MAX_COUNT, the rest spread at random."""
        others, members = vocabulary.families - 1, vocabulary.members
        if min(MAX_COUNT, members) < MAX_COUNT or n_blocks <= MAX_COUNT:
            raise ValueError(
                f"aggregation needs at least {MAX_COUNT} members and {MAX_COUNT + 1} blocks, "
                f"got {members} members and {n_blocks} blocks"
            )
        if n_blocks - 1 > others * members:
            raise ValueError(
                f"more records than keys: {n_blocks - 1} records outside the asked family, "
                f"{others} other families hold {others * members} keys"
            )
        first = rng.integers(1, MAX_COUNT + 1, size=batch)
        # Each other family offers `members` places; the smallest random numbers win one.
        draws = rng.random((batch, others * members))
        threshold = np.take_along_axis(np.sort(draws, axis=1), (n_blocks - first - 1)[:, None], axis=1)
        taken = (draws <= threshold).reshape(batch, others, members).sum(axis=2)
        return np.concatenate([first[:, None], taken], axis=1)

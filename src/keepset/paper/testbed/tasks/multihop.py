"""Multi-hop: the queried record points to a second record, and so on to a value."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from keepset.paper.testbed.tasks.sheet import NO_POINTER, Sheet, ask, distinct_keys, permute, pick
from keepset.paper.testbed.tasks.vocabulary import Ids, Vocabulary

Order = Literal["value_first", "pointers_first", "any"]


@dataclass(frozen=True)
class Multihop:
    """
    block      0              1                 2                 query
    tokens     WRITE f3 m1 v7 WRITE f0 m2 f3 m1 WRITE f5 m0 f0 m2 QUERY f5 m0 -> v7
    evidence   value          second pointer    first pointer     family {{0, 1, 2}}
    """

    hops: int = 2
    """Pointers in a chain; the chain has hops + 1 records."""
    distractor_chains: int = 0
    """Further chains that are not asked for first."""
    order: Order = "value_first"
    """Where the records of a chain stand: from the value back to the first pointer, so that a pointer can be resolved
    where it stands; from the first pointer on to the value; or anywhere."""
    redundant: bool = False
    """Two disjoint chains from the queried key to the same answer: either suffices, no block is necessary."""

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet:
        if self.hops < 1:
            raise ValueError(f"hops must be at least 1, got {self.hops}")
        length = self.hops + 1
        chains = 1 + self.distractor_chains + self.redundant
        if chains * length > n_blocks:
            raise ValueError(
                f"chain longer than the context: {chains} chain(s) of {length} records need "
                f"{chains * length} blocks, got {n_blocks}"
            )
        # Slots: chain c holds slots c*length (first pointer) to c*length + hops (value); then single records.
        keys = distinct_keys(rng, batch, n_blocks, vocabulary.keys)
        values = rng.integers(vocabulary.values, size=(batch, n_blocks))
        in_chain = chains * length
        chain_slots = np.arange(in_chain).reshape(chains, length)
        if self.redundant:
            keys[:, length] = keys[:, 0]
            values[:, 2 * length - 1] = values[:, length - 1]
        pointers = np.full((batch, n_blocks), NO_POINTER)
        pointers[:, chain_slots[:, :-1]] = keys[:, chain_slots[:, 1:]]
        # What a query for a slot's key resolves to: the value at the end of its chain, or its own.
        ends = np.concatenate([np.repeat(chain_slots[:, -1], length), np.arange(in_chain, n_blocks)])
        position = self._positions(rng, batch, n_blocks, chains)  # (B, N) where each slot stands
        place = position.argsort(axis=1)
        queried, asked = ask(self._askable(rng, batch, n_blocks, in_chain), n_queries)
        sets = 1 + self.redundant
        family = np.zeros((batch, sets, n_blocks), dtype=bool)
        np.put_along_axis(family, position[:, : sets * length].reshape(batch, sets, length), True, axis=2)
        return Sheet(
            keys=pick(keys, place),
            values=pick(values, place),
            pointers=pick(pointers, place),
            query_keys=pick(keys, queried),
            whole_family=False,
            answers=vocabulary.value_token(pick(values, ends[queried])),
            asked=asked,
            family=family,
        )

    def _positions(self, rng: np.random.Generator, batch: int, n_blocks: int, chains: int) -> Ids:
        position = permute(rng, batch, n_blocks)
        if self.order == "any":
            return position
        length = self.hops + 1
        rows = position[:, : chains * length].reshape(batch, chains, length)
        rows = np.sort(rows, axis=2)
        if self.order == "value_first":
            rows = rows[:, :, ::-1]
        position[:, : chains * length] = rows.reshape(batch, -1)
        return position

    def _askable(self, rng: np.random.Generator, batch: int, n_blocks: int, in_chain: int) -> Ids:
        """What may be asked: the first chain's head, the other chain records, then single records.

        A context has fewer chains than queries; asking middle and end records too keeps every query
        of a sequence different.
        """
        skip = (self.hops + 1) if self.redundant else -1  # the second head has the first head's key
        rest = np.array([slot for slot in range(1, in_chain) if slot != skip])
        chain_rest = rest[permute(rng, batch, len(rest))]
        singles = in_chain + permute(rng, batch, n_blocks - in_chain)
        head = np.zeros((batch, 1), dtype=np.int64)
        return np.concatenate([head, chain_rest, singles], axis=1)

"""Every named evaluation condition: a task, its settings, and how long the context is."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.tasks.aggregation import Aggregation
from keepset.paper.testbed.tasks.duplicate import Duplicate
from keepset.paper.testbed.tasks.latest_write import LatestWrite
from keepset.paper.testbed.tasks.multihop import Multihop
from keepset.paper.testbed.tasks.sheet import Sheet, encode
from keepset.paper.testbed.tasks.unique import Unique
from keepset.paper.testbed.tasks.vocabulary import Vocabulary


class Task(Protocol):
    """Where examples come from: one method that decides a batch of contexts and queries."""

    def sample(
        self, rng: np.random.Generator, batch: int, n_blocks: int, n_queries: int, vocabulary: Vocabulary
    ) -> Sheet: ...


@dataclass(frozen=True)
class Condition:
    """A task at a context length, relative to the length the teacher was trained at."""

    task: Task
    length: int = 1


CONDITIONS = {
    "unique": Condition(Unique()),
    "latest_write": Condition(LatestWrite()),
    "duplicate": Condition(Duplicate()),
    "multihop": Condition(Multihop()),
    "aggregation": Condition(Aggregation()),
    "latest_write_stale4": Condition(LatestWrite(stale=4)),
    "unique_family": Condition(Unique(family_distractors=4)),
    "unique_2x": Condition(Unique(), length=2),
    "latest_write_2x": Condition(LatestWrite(), length=2),
    "unique_4x": Condition(Unique(), length=4),
    "latest_write_4x": Condition(LatestWrite(), length=4),
    "duplicate_m1": Condition(Duplicate(copies=1)),
    "duplicate_m2": Condition(Duplicate(copies=2)),
    "duplicate_m4": Condition(Duplicate(copies=4)),
    "multihop_hardened": Condition(Multihop(distractor_chains=2, order="any")),
    "multihop_chains": Condition(Multihop(distractor_chains=2)),
    "multihop_3hop": Condition(Multihop(hops=3)),
    "multihop_3hop_pointers_first": Condition(Multihop(hops=3, order="pointers_first")),
    "multihop_3hop_shuffled": Condition(Multihop(hops=3, order="any")),
    "multihop_redundant": Condition(Multihop(redundant=True)),
    "multihop_redundant_pointers_first": Condition(Multihop(redundant=True, order="pointers_first")),
    "multihop_pointers_first": Condition(Multihop(order="pointers_first")),
    "multihop_pointers_first_chains": Condition(Multihop(order="pointers_first", distractor_chains=2)),
}

WARM_UPS = {
    "unique_same_family": Condition(Unique(shared="family")),
    "unique_same_member": Condition(Unique(shared="member")),
    "multihop_1hop": Condition(Multihop(hops=1, distractor_chains=4)),
    "multihop_1hop_shuffled": Condition(Multihop(hops=1, distractor_chains=4, order="any")),
    "multihop_1hop_pointers_first": Condition(Multihop(hops=1, distractor_chains=4, order="pointers_first")),
}
"""Conditions that only the first stages of training use; never evaluated."""


def find_condition(name: str) -> Condition:
    """The condition called ``name``."""
    known = CONDITIONS | WARM_UPS
    if name not in known:
        raise ValueError(f"unknown task or condition {name!r}; expected one of {', '.join(known)}")
    return known[name]


def sample_condition(
    name: str, seed: int, batch: int, n_blocks: int, width: int, vocabulary: Vocabulary, n_queries: int = 1
) -> ExampleBatch:
    """``batch`` examples of condition ``name``; ``n_blocks`` is the training length, before the condition's factor."""
    condition = find_condition(name)
    rng = np.random.default_rng(seed)
    sheet = condition.task.sample(rng, batch, n_blocks * condition.length, n_queries, vocabulary)
    return encode(sheet, vocabulary, width)

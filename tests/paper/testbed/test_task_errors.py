"""What a task cannot do, it refuses, saying what was expected and what it got."""

import numpy as np
import pytest

from keepset.paper.testbed.tasks import Task, Vocabulary, find_condition, sample_condition
from keepset.paper.testbed.tasks.aggregation import Aggregation
from keepset.paper.testbed.tasks.duplicate import Duplicate
from keepset.paper.testbed.tasks.latest_write import LatestWrite
from keepset.paper.testbed.tasks.mixture import sample_mixture
from keepset.paper.testbed.tasks.multihop import Multihop
from keepset.paper.testbed.tasks.unique import Unique

SMALL = Vocabulary(families=2, members=5, values=4)
LARGE = Vocabulary(families=8, members=8, values=16)


def test_an_unknown_condition_is_named_beside_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown task or condition 'uniqe'; expected one of unique, latest_write, "):
        find_condition("uniqe")
    with pytest.raises(ValueError, match="unknown task or condition 'uniqe'"):
        sample_condition("uniqe", 0, 1, 8, 5, LARGE)
    with pytest.raises(ValueError, match="unknown task or condition 'uniqe'"):
        sample_mixture({"unique": 1.0, "uniqe": 1.0}, 0, 8, 8, 5, LARGE, 1)


@pytest.mark.parametrize(
    ("task", "n_blocks", "message"),
    [
        (Unique(), 11, "more records than keys: 11 distinct keys asked for, the vocabulary has 10; use fewer blocks"),
        (Unique(shared="family"), 6, "more records than keys: 6 records that share a family, the vocabulary has 5"),
        (Unique(shared="member"), 3, "more records than keys: 3 records that share a member, the vocabulary has 2"),
        (Unique(4), 11, "more records than keys: 6 records outside the queried family, the other families have 5"),
        (Unique(5), 8, r"family_distractors must be at most 4 \(5 members, 8 blocks\), got 5"),
        (Unique(4), 4, r"family_distractors must be at most 3 \(5 members, 4 blocks\), got 4"),
        (Multihop(), 11, "more records than keys: 11 distinct keys asked for"),
        (LatestWrite(), 22, "more records than keys: 11 distinct keys asked for"),
        (LatestWrite(4), 5, "5 records of the queried key do not fit .* in 5 blocks; expected at least 6 blocks"),
        (Duplicate(4), 4, "4 records of the queried key do not fit .* in 4 blocks; expected at least 5 blocks"),
        (Duplicate(0), 8, "expected at least 1 record of the queried key, got 0"),
        (Aggregation(), 7, "more records than keys: 6 records outside the asked family, 1 other families hold 5 keys"),
        (Aggregation(), 5, "aggregation needs at least 5 members and 6 blocks, got 5 members and 5 blocks"),
        (Multihop(hops=3), 3, r"chain longer than the context: 1 chain\(s\) of 4 records need 4 blocks, got 3"),
        (Multihop(distractor_chains=2), 8, r"3 chain\(s\) of 3 records need 9 blocks, got 8"),
        (Multihop(redundant=True), 5, r"2 chain\(s\) of 3 records need 6 blocks, got 5"),
        (Multihop(hops=0), 8, "hops must be at least 1, got 0"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(task: Task, n_blocks: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task.sample(np.random.default_rng(0), 2, n_blocks, 1, SMALL)


@pytest.mark.parametrize(
    ("task", "n_blocks"),
    [(Unique(), 10), (Unique(4), 10), (LatestWrite(), 4), (Duplicate(4), 5), (Aggregation(), 6), (Multihop(hops=3), 4)],
)
def test_a_task_that_just_fits_is_not_refused(task: Task, n_blocks: int) -> None:
    assert task.sample(np.random.default_rng(0), 2, n_blocks, 1, SMALL).keys.shape == (2, n_blocks)


def test_aggregation_needs_members_for_every_count() -> None:
    with pytest.raises(ValueError, match="needs at least 5 members and 6 blocks, got 4 members and 8 blocks"):
        Aggregation().sample(np.random.default_rng(0), 2, 8, 1, Vocabulary(families=8, members=4, values=4))


@pytest.mark.parametrize(("name", "width", "needed"), [("unique", 3, 4), ("multihop", 4, 5)])
def test_a_block_too_narrow_for_a_record_is_refused(name: str, width: int, needed: int) -> None:
    with pytest.raises(ValueError, match=f"block width must be at least {needed} for these records, got {width}"):
        sample_condition(name, 0, 2, 8, width, LARGE)
    assert sample_condition(name, 0, 2, 8, needed, LARGE).blocks[0].stop == needed


def test_a_mixture_of_several_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one context length, got 2 conditions with length factors \[1, 4\]"):
        sample_mixture({"unique": 1.0, "unique_4x": 1.0}, 0, 8, 4, 5, LARGE, 1)

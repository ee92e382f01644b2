"""Families against a brute-force monotone oracle: redundancy, chains, chains with copies."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepset.blocks import Family, KeepSet
from keepset.interventions import Effects
from keepset.labels.families import FoundFamily, all_sets, confirm, find_families
from tests.searches import Rule, run_search


def minimal(sets: list[KeepSet]) -> Family:
    return frozenset(a for a in sets if not any(b < a for b in sets))


def brute_force(n: int, rule: Rule) -> Family:
    keeps = [frozenset(keep) for size in range(n + 1) for keep in combinations(range(n), size)]
    return minimal([keep for keep in keeps if rule(keep)])


def holds(sets: Family) -> Rule:
    return lambda keep: any(found <= keep for found in sets)


families = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.frozensets(st.integers(0, n - 1), max_size=4), min_size=1, max_size=5).map(minimal),
    )
)


@given(families)
def test_all_sets_are_those_of_brute_force(drawn: tuple[int, Family]) -> None:
    n, known = drawn
    found, asked = run_search(all_sets(n, cap=10), holds(known))
    assert isinstance(found, FoundFamily)
    assert found.sets == known == brute_force(n, holds(known))
    assert found.complete
    assert found.probes == asked


def copies(*places: tuple[int, ...]) -> Family:
    """A chain each of whose records stands at one of several places."""
    sets: list[KeepSet] = [frozenset()]
    for alternatives in places:
        sets = [keep | {block} for keep in sets for block in alternatives]
    return frozenset(sets)


@pytest.mark.parametrize(
    ("n", "known"),
    [
        (16, frozenset({frozenset({1, 4, 6}), frozenset({2, 3, 9})})),  # two disjoint chains
        (16, frozenset({frozenset({1, 4, 6}), frozenset({2, 4, 9})})),  # they share a link
        (16, copies((0,), (3, 5), (7,))),  # a chain with one link written twice
        (16, copies((0, 1), (3, 5))),  # both written twice
        (32, frozenset(frozenset({block}) for block in (2, 11, 30))),  # three copies of one record
        (12, frozenset({frozenset(range(12))})),  # everything is needed
        (1, frozenset({frozenset({0})})),
        (5, frozenset({frozenset()})),  # nothing is needed
    ],
)
def test_redundancy_chains_and_chains_with_copies(n: int, known: Family) -> None:
    found, _ = run_search(all_sets(n), holds(known))
    assert isinstance(found, FoundFamily)
    assert (found.sets, found.complete) == (known, True)


def test_two_chains_of_a_long_context_cost_few_probes() -> None:
    known = frozenset({frozenset({3, 64, 100}), frozenset({20, 21, 127})})
    found, asked = run_search(all_sets(128), holds(known))
    assert isinstance(found, FoundFamily)
    assert found.sets == known
    assert asked <= 128  # leave-one-out alone asks as many, and finds nothing


def test_the_cap_is_kept_and_said() -> None:
    known = frozenset(frozenset({block}) for block in range(6))
    found, _ = run_search(all_sets(6, cap=4), holds(known))
    assert isinstance(found, FoundFamily)
    assert len(found.sets) == 4
    assert found.sets < known
    assert not found.complete


def test_a_wide_tree_is_cut_off_and_said() -> None:
    known = frozenset({frozenset(range(8)), frozenset(range(8, 16))})  # 64 nodes to prove there is no third set
    found, asked = run_search(all_sets(16, max_probes=60), holds(known))
    assert isinstance(found, FoundFamily)
    assert found.sets == known
    assert not found.complete
    assert asked <= 60 + 2 * 16
    assert run_search(all_sets(16), holds(known))[0].complete  # type: ignore[attr-defined]


def test_a_wrong_clean_answer_has_no_family() -> None:
    assert run_search(all_sets(7), lambda keep: False)[0] == FoundFamily(frozenset(), True, 1)


def test_the_label_is_the_union_of_the_smallest_sets() -> None:
    sets = frozenset({frozenset({1, 4, 6}), frozenset({2, 3, 9}), frozenset({1, 2, 3, 8})})
    found = FoundFamily(sets, complete=True, probes=9)
    assert found.smallest == {frozenset({1, 4, 6}), frozenset({2, 3, 9})}
    assert found.union == {1, 2, 3, 4, 6, 9}
    assert FoundFamily(frozenset(), complete=True, probes=1).union == frozenset()


def test_families_of_a_batch_are_searched_together(ruled_effects: Callable[..., Effects]) -> None:
    def rule(i: int, keep: KeepSet) -> float:
        chains = ({0, 2}, {1, 3}) if i == 0 else ({1},)
        return -0.1 if any(chain <= keep for chain in chains) else -5.0

    probe = ruled_effects([5, 3], rule).probe
    found = find_families(probe)
    assert [family.sets for family in found] == [
        {frozenset({0, 2}), frozenset({1, 3})},
        {frozenset({1})},
    ]


def test_a_lucky_set_is_not_confirmed(ruled_effects: Callable[..., Effects]) -> None:
    true, lucky = frozenset({0, 2}), frozenset({3})

    def search(i: int, keep: KeepSet) -> float:
        return -0.1 if true <= keep or lucky <= keep else -5.0

    def again(i: int, keep: KeepSet) -> float:
        return -0.1 if true <= keep else -5.0

    found = find_families(ruled_effects([5], search).probe)
    assert found[0].sets == {true, lucky}
    (confirmed,) = confirm(found, ruled_effects([5], again).probe)
    assert confirmed.sets == {true}
    assert not confirmed.complete
    assert confirmed.probes == found[0].probes + 2
    assert confirm([confirmed], ruled_effects([5], again).probe)[0].sets == {true}

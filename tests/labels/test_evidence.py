"""Evidence sets, rankings, estimators and agreement on rules whose labels are known by hand."""

from collections.abc import Callable

import pytest
import torch

from keepset.blocks import KeepSet
from keepset.interventions import Effects
from keepset.labels import (
    ESTIMATORS,
    Case,
    Evidence,
    covered,
    evidence_sets,
    exact_match,
    find_evidence,
    floored,
    greedy_sets,
    jaccard,
    keep_sets,
    label_of,
    recover,
    task_evidence,
    top_drops,
    top_k,
)

Ruled = Callable[..., Effects]
LOST = -5.0


def copies(i: int, keep: KeepSet) -> float:
    """Blocks 1 and 3 say the same."""
    return -0.1 if keep & {1, 3} else LOST


def chain(i: int, keep: KeepSet) -> float:
    """Blocks 0, 2 and 4 are needed together; each missing one costs more the later it stands."""
    missing = {0, 2, 4} - keep
    return -0.1 if not missing else LOST - sum(missing)


def copied_end(i: int, keep: KeepSet) -> float:
    """The chain again, but its end alone is copied for want of another value."""
    return -0.5 if keep == {4} else chain(i, keep)


def nothing(i: int, keep: KeepSet) -> float:
    return -0.1


def never(i: int, keep: KeepSet) -> float:
    return LOST


def test_the_two_cases_and_the_empty_ones(ruled_effects: Ruled) -> None:
    assert find_evidence(ruled_effects([5], copies))[0] == evidence({1, 3}, Case.ALTERNATIVES)
    assert find_evidence(ruled_effects([5], chain))[0] == evidence({0, 2, 4}, Case.NECESSARY)
    assert find_evidence(ruled_effects([5], copied_end))[0] == evidence({4}, Case.ALTERNATIVES)
    assert find_evidence(ruled_effects([5], never))[0] == evidence(set(), Case.EMPTY)
    # The model answers from the question alone: every block "suffices".
    assert find_evidence(ruled_effects([3], nothing))[0] == evidence({0, 1, 2}, Case.ALTERNATIVES)


def evidence(blocks: set[int], case: Case) -> Evidence:
    return Evidence(frozenset(blocks), case)


def test_one_block_and_all_blocks_needed(ruled_effects: Ruled) -> None:
    assert keep_sets(evidence_sets(ruled_effects([1], lambda i, keep: -0.1 if keep else LOST))) == [{0}]
    everything = ruled_effects([4], lambda i, keep: -0.1 if len(keep) == 4 else LOST)
    assert find_evidence(everything)[0] == evidence({0, 1, 2, 3}, Case.NECESSARY)


def test_padding_is_never_named(ruled_effects: Ruled) -> None:
    effects = ruled_effects([5, 2], lambda i, keep: -0.1 if 1 in keep else LOST)
    assert keep_sets(top_drops(effects, 4))[1] == {0, 1}
    assert keep_sets(evidence_sets(effects)) == [{1}, {1}]
    assert keep_sets(greedy_sets(effects)) == [{1}, {1}]


def test_of_equal_scores_the_lower_block_is_named() -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert keep_sets(top_k(scores, 1)) == [{1}, {0}]
    assert keep_sets(top_k(scores, 3)) == [{0, 1, 2}, {0, 1, 2}]
    assert keep_sets(top_k(scores, torch.tensor([2, 0]))) == [{1, 2}, set()]
    assert keep_sets(top_k(scores, 9)) == [{0, 1, 2, 3}, {0, 1, 2, 3}]


def test_greedy_adds_by_drop_and_prunes(ruled_effects: Ruled) -> None:
    assert keep_sets(greedy_sets(ruled_effects([6], chain))) == [{0, 2, 4}]
    # The end has the largest drop, suffices at once, and the chain is never seen: the paper's bound.
    assert keep_sets(greedy_sets(ruled_effects([6], copied_end))) == [{4}]
    assert keep_sets(greedy_sets(ruled_effects([6], never))) == [set()]

    def spare(i: int, keep: KeepSet) -> float:
        """Block 0 looks most important, and is not needed where 1 and 2 are."""
        return -0.1 if {1, 2} <= keep else LOST - 3 * (0 not in keep) - len({1, 2} - keep)

    assert keep_sets(greedy_sets(ruled_effects([5], spare))) == [{1, 2}]


FAMILY = [frozenset({frozenset({0, 2, 4})})]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sufficiency_flip", {4}),
        ("verified_prefix", {4}),
        ("annotated_drops", {0, 2, 4}),
        ("budget_drops", {2, 4}),
        ("singletons_budget", {4}),
        ("floored", {2, 4}),
    ],
)
def test_estimators_on_a_chain_whose_end_is_copied(name: str, expected: set[int], ruled_effects: Ruled) -> None:
    effects = ruled_effects([5], copied_end, families=FAMILY)
    assert keep_sets(recover(name, effects, budget=2)) == [expected]


def test_the_floor_decides_between_drops_and_singletons(ruled_effects: Ruled) -> None:
    effects = ruled_effects([5], copies)
    assert keep_sets(floored(effects, 3)) == [{1, 3}]  # nothing clears the floor: every block that suffices
    small = ruled_effects([5], lambda i, keep: -0.1 if 2 in keep else -0.3)
    assert keep_sets(floored(small, 3, floor=0.1)) == [{2}]
    assert keep_sets(floored(small, 3, floor=0.25)) == [{0, 1, 2, 3, 4}]
    whole = ruled_effects([5], chain)
    assert keep_sets(floored(whole, 3)) == [{0, 2, 4}]


def test_labels_measure_support_where_the_model_is_wrong(ruled_effects: Ruled) -> None:
    # Never given, yet block 2 makes it more likely: nothing flips, and the drop still finds it.
    effects = ruled_effects([4], lambda i, keep: -2.0 if 2 in keep else LOST)
    assert keep_sets(evidence_sets(effects)) == [set()]
    assert keep_sets(floored(effects, 2)) == [{2}]


def test_one_pass_of_effects_serves_every_estimator(ruled_effects: Ruled) -> None:
    asked: list[KeepSet] = []

    def count(i: int, keep: KeepSet) -> float:
        asked.append(keep)
        return chain(i, keep)

    effects = ruled_effects([5], count, families=FAMILY)
    for name in ESTIMATORS:
        recover(name, effects, budget=3)
    assert len(asked) == len(set(asked)) <= 2 * 5 + 1 + 3  # the prefixes are the only further probes


def test_leave_one_out_runs_only_where_no_block_is_enough(ruled_effects: Ruled) -> None:
    asked: list[tuple[int, KeepSet]] = []

    def rule(i: int, keep: KeepSet) -> float:
        asked.append((i, keep))
        return copies(i, keep) if i == 0 else chain(i, keep)

    effects = ruled_effects([5, 5], rule)
    assert keep_sets(evidence_sets(effects)) == [{1, 3}, {0, 2, 4}]
    hidden = [(i, keep) for i, keep in asked if len(keep) == 4]
    assert [i for i, _ in hidden] == [1] * 5
    assert keep_sets(effects.flip_unless_sufficient) == [set(), {0, 2, 4}]
    assert keep_sets(effects.flip) == [set(), {0, 2, 4}]
    assert len(asked) == len(set(asked)), "what was measured is not measured again"


@pytest.mark.parametrize("effort", ["exact", "grouped", "certified"])
def test_every_effort_finds_the_evidence_of_plain_rules(ruled_effects: Ruled, effort: str) -> None:
    effects = ruled_effects([5, 5, 5], lambda i, keep: (copies, chain, never)[i](i, keep), effort)
    assert keep_sets(evidence_sets(effects)) == [{1, 3}, {0, 2, 4}, set()]


def test_bad_estimators_and_budgets(ruled_effects: Ruled) -> None:
    effects = ruled_effects([3], copies)
    with pytest.raises(ValueError, match="unknown estimator 'guess'; expected one of sufficiency_flip"):
        recover("guess", effects, 2)
    with pytest.raises(ValueError, match="budget: expected at least one block, got 0"):
        recover("floored", effects, 0)


def test_agreement() -> None:
    a = label_of([frozenset({0, 1}), frozenset(), frozenset({2})], 4)
    b = label_of([frozenset({1, 2}), frozenset(), frozenset({3})], 4)
    assert jaccard(a, b).tolist() == pytest.approx([1 / 3, 1.0, 0.0])
    assert exact_match(a, b).tolist() == [False, True, False]
    family = frozenset({frozenset({0, 1}), frozenset({3})})
    assert covered([frozenset({0, 1, 2}), frozenset({1}), frozenset({3})], [family] * 3) == [True, False, True]


def test_task_evidence_is_the_union(ruled_effects: Ruled) -> None:
    family = frozenset({frozenset({0, 1}), frozenset({3})})
    effects = ruled_effects([4, 2], copies, families=[family, frozenset({frozenset({1})})])
    assert keep_sets(task_evidence(effects.probe.examples, 4)) == [{0, 1, 3}, {1}]

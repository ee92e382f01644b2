"""Verdicts follow from intervals."""

import pytest

from keepset.paper.claim import FAILS, HOLDS, OPEN, above, below, every_claim, none_claim, side_of_zero, worst
from keepset.paper.result import Metric


def metric(low: float, high: float) -> Metric:
    return Metric(what="x", value=(low + high) / 2, n=5, low=low, high=high)


@pytest.mark.parametrize(
    ("low", "high", "at_least", "ahead"),
    [(0.01, 0.02, HOLDS, HOLDS), (-0.02, -0.01, FAILS, FAILS), (-0.01, 0.01, OPEN, OPEN), (0.0, 0.0, HOLDS, OPEN)],
)
def test_a_difference_holds_when_all_of_its_interval_is_on_one_side(
    low: float, high: float, at_least: str, ahead: str
) -> None:
    assert side_of_zero(metric(low, high), ahead=False) == at_least
    assert side_of_zero(metric(low, high), ahead=True) == ahead


@pytest.mark.parametrize(
    ("low", "high", "over", "under"),
    [(0.96, 0.99, HOLDS, FAILS), (0.90, 0.94, FAILS, HOLDS), (0.94, 0.96, OPEN, OPEN)],
)
def test_a_share_is_held_against_a_bar(low: float, high: float, over: str, under: str) -> None:
    assert above(metric(low, high), 0.95) == over
    assert below(metric(low, high), 0.95) == under


def test_a_claim_about_each_of_several_is_as_good_as_the_worst() -> None:
    assert worst({HOLDS}) == HOLDS
    assert worst({HOLDS, OPEN}) == OPEN
    assert worst({HOLDS, OPEN, FAILS}) == FAILS


def test_one_over_the_bar_is_enough_to_refute_none_and_one_under_it_to_refute_every() -> None:
    low, high = metric(0.0, 0.1), metric(0.5, 0.7)
    every, none = (claim("c", "p", [low, high], 0.3, "n") for claim in (every_claim, none_claim))
    assert (every.verdict, none.verdict) == (FAILS, FAILS)
    assert "lowest 0.050 (0.000 to 0.100)" in every.here
    assert "highest 0.600 (0.500 to 0.700)" in none.here
    assert none_claim("c", "p", [low, low], 0.3, "n").verdict == HOLDS

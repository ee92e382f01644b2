"""Intervals and paired differences against scipy."""

import pytest
from scipy.stats import binomtest, sem, ttest_1samp, ttest_rel

from keepset.evaluation.statistics import paired_difference, proportion

CAUSAL = [0.91, 0.85, 0.99, 0.70, 0.88]
IMITATION = [0.80, 0.83, 0.95, 0.60, 0.90]


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 20), (20, 20), (299, 300)])
def test_the_wilson_interval_is_scipys(successes: int, n: int) -> None:
    metric = proportion("x", successes, n)
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert (metric.low, metric.high) == pytest.approx((expected.low, expected.high))


def test_the_paired_test_is_scipys() -> None:
    found = paired_difference(CAUSAL, IMITATION)
    differences = [a - b for a, b in zip(CAUSAL, IMITATION, strict=True)]
    assert found.mean == pytest.approx(0.05)
    assert found.standard_error == pytest.approx(float(sem(differences)))
    assert found.p_value == pytest.approx(float(ttest_rel(CAUSAL, IMITATION).pvalue))
    interval = ttest_1samp(differences, 0).confidence_interval(0.95)
    metric = found.metric("gap")
    assert (metric.name, metric.value, metric.n) == ("gap", found.mean, 5)
    assert (metric.low, metric.high) == pytest.approx((interval.low, interval.high))


def test_the_order_of_the_arms_only_turns_the_sign() -> None:
    one, other = paired_difference(CAUSAL, IMITATION), paired_difference(IMITATION, CAUSAL)
    assert one.mean == pytest.approx(-other.mean)
    assert one.p_value == pytest.approx(other.p_value)


def test_teachers_that_agree_exactly() -> None:
    same = paired_difference([0.5, 1.0], [0.5, 1.0])
    assert (same.mean, same.standard_error, same.p_value) == (0.0, 0.0, 1.0)
    apart = paired_difference([0.5, 1.0], [0.25, 0.75])
    assert (apart.mean, apart.standard_error, apart.p_value) == (0.25, 0.0, 0.0)


@pytest.mark.parametrize(("first", "second"), [([0.5], [0.4]), ([0.5, 0.6], [0.4]), ([], [])])
def test_a_pair_needs_two_teachers(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match=f"at least 2, got {len(first)} and {len(second)}"):
        paired_difference(first, second)

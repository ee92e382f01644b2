"""Intervals and paired differences against scipy."""

from math import hypot
from statistics import stdev

import pytest
from scipy.stats import binomtest, f, sem, t, ttest_1samp, ttest_rel

from keepset.paper.result import Metric
from keepset.paper.statistics import (
    bounds,
    clustered_difference,
    crossed_difference,
    crossed_mean,
    marked_share,
    mean_of,
    paired_difference,
    pooled,
    share,
    share_difference,
    sign_test,
    spread_ratio,
)
from keepset.statistics import clustered_wilson, wilson

CAUSAL = [0.91, 0.85, 0.99, 0.70, 0.88]
IMITATION = [0.80, 0.83, 0.95, 0.60, 0.90]


def test_a_mean_has_a_t_interval() -> None:
    found = mean_of("moved", CAUSAL)
    expected = ttest_1samp(CAUSAL, 0).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert found.n == 5
    with pytest.raises(ValueError, match="moved: expected at least 2 values, got 1"):
        mean_of("moved", [0.3])


def test_a_clustered_difference_counts_documents_not_questions() -> None:
    alone = clustered_difference("gap", [[1], [0], [0], [1], [0], [-1]])
    twice = clustered_difference("gap", [[1, 1], [0, 0], [0, 0], [1, 1], [0, 0], [-1, -1]])
    assert (alone.value, twice.value) == (pytest.approx(1 / 6), pytest.approx(1 / 6))
    assert (alone.low, alone.high) == (pytest.approx(twice.low), pytest.approx(twice.high)), "the same six documents"
    assert (alone.n, twice.n) == (6, 12)
    values = [1, 0, 0, 1, 0, -1]
    half = t.ppf(0.975, 5) * stdev(values) / 6**0.5
    assert alone.high == pytest.approx(1 / 6 + half)
    assert clustered_difference("gap", [[1], [1], [0]]).high == 1.0, "no share differs by more"
    with pytest.raises(ValueError, match="gap: expected at least 2 clusters"):
        clustered_difference("gap", [[1]])


def cells(rights: list[list[int]], n: int = 100) -> dict[tuple[int, int], Metric]:
    """A row per teacher, a column per router."""
    return {(i, j): share("x", right, n) for i, row in enumerate(rights) for j, right in enumerate(row)}


def test_a_crossed_difference_is_no_surer_than_its_teachers_its_routers_or_its_examples() -> None:
    half = cells([[50, 50], [50, 50]])
    gap = crossed_difference("gap", cells([[60, 62], [70, 72]]), half)
    low, high = bounds(gap)
    assert gap.value == pytest.approx(0.16)
    over_teachers = t.ppf(0.975, 1) * stdev([0.11, 0.21]) / 2**0.5
    over_routers = t.ppf(0.975, 1) * stdev([0.15, 0.17]) / 2**0.5
    first, second = wilson(66, 100), wilson(50, 100)
    assert high - gap.value == pytest.approx(hypot(over_teachers, over_routers, first[1] - 0.66, 0.5 - second[0]))
    assert gap.value - low == pytest.approx(hypot(over_teachers, over_routers, 0.66 - first[0], second[1] - 0.5))
    assert gap.n == 4


def marked(rows: list[list[str]]) -> dict[tuple[int, int], Metric]:
    """Who was right: a row per teacher, a column per router."""
    return {
        (i, j): marked_share("x", [mark == "1" for mark in marks])
        for i, row in enumerate(rows)
        for j, marks in enumerate(row)
    }


def test_examples_that_both_arms_answered_are_paired() -> None:
    right, wrong = "1" * 60 + "0" * 40, "1" * 40 + "0" * 60
    first, second = marked([[right, right], [right, right]]), marked([[wrong, wrong], [wrong, wrong]])
    gap = crossed_difference("gap", first, second)
    gaps = [0.0] * 40 + [1.0] * 20 + [0.0] * 40
    assert gap.value == pytest.approx(0.2)
    assert (gap.high or 0) - gap.value == pytest.approx(t.ppf(0.975, 99) * stdev(gaps) / 10)
    assert first[0, 0].each == right
    unpaired = crossed_difference("gap", cells([[60, 60], [60, 60]]), cells([[40, 40], [40, 40]]))
    assert unpaired.low is not None
    assert gap.low is not None
    assert gap.low > unpaired.low, "the same examples tell more"
    low, high = bounds(crossed_difference("gap", first, first))
    assert (low, high) == (pytest.approx(-wilson(0, 100)[1]), pytest.approx(wilson(0, 100)[1])), "not nothing"
    assert bounds(crossed_difference("gap", first, cells([[40, 40], [40, 40]]))) == bounds(unpaired), "one has no marks"


def test_identical_differences_are_one_observation() -> None:
    full = cells([[100, 100], [100, 100]])
    gap = crossed_difference("gap", full, full)
    low, high = bounds(gap)
    assert (gap.value, gap.n) == (0, 1)
    assert low < 0 < high, "a hundred answers at the ceiling do not show that the arms are equal"
    assert crossed_difference("gap", cells([[60, 61], [60, 61]]), full).n == 2, "routers differ, teachers do not"
    with pytest.raises(ValueError, match="gap: expected the same teachers and routers in both arms, got 4 and 2"):
        crossed_difference("gap", full, cells([[1, 1]]))


def test_a_ratio_of_spreads_has_the_interval_of_f() -> None:
    ratio = spread_ratio([0.0, 2.0, 4.0, 6.0], [1.0, 2.0, 3.0, 4.0, 5.0], "ratio")
    one, other = stdev([0, 2, 4, 6]), stdev([1, 2, 3, 4, 5])
    assert ratio.value == pytest.approx(one / other)
    assert bounds(ratio) == pytest.approx(
        (ratio.value / f.ppf(0.975, 3, 4) ** 0.5, ratio.value / f.ppf(0.025, 3, 4) ** 0.5)
    )


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 20), (20, 20), (299, 300)])
def test_the_wilson_interval_is_scipys(successes: int, n: int) -> None:
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((expected.low, expected.high))
    assert all(0 <= end <= 1 for end in wilson(successes, n))


@pytest.mark.parametrize(("successes", "n"), [(11, 10), (-1, 10), (0, 0)])
def test_an_impossible_share_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"expected 0 <= successes <= n and n >= 1, got {successes} of {n}"):
        wilson(successes, n)


def test_a_share_has_its_interval_and_its_coordinates() -> None:
    found = share("routed", 7, 20, arm="causal", teacher=0)
    assert (found.what, found.at, found.value, found.n) == ("routed", {"arm": "causal", "teacher": 0}, 0.35, 20)
    assert (found.low, found.high) == wilson(7, 20)


def test_pooled_shares_weigh_by_their_examples() -> None:
    parts = [share("routed", 1, 3, teacher=0), share("routed", 299, 300, teacher=1)]
    assert pooled("all", iter(parts)) == share("all", 300, 303)


def test_the_paired_test_is_scipys() -> None:
    found = paired_difference(CAUSAL, IMITATION)
    differences = [a - b for a, b in zip(CAUSAL, IMITATION, strict=True)]
    assert found.mean == pytest.approx(0.05)
    assert found.standard_error == pytest.approx(float(sem(differences)))
    assert found.p_value == pytest.approx(float(ttest_rel(CAUSAL, IMITATION).pvalue))
    interval = ttest_1samp(differences, 0).confidence_interval(0.95)
    metric = found.metric("gap")
    assert (metric.what, metric.value, metric.n) == ("gap", found.mean, 5)
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


def test_shares_of_unrelated_examples_have_the_unpaired_interval() -> None:
    # 8 of 20 right in the first, 10 in the second, 4 in both: as many as by chance
    gap = share_difference(share("a", 8, 20), share("b", 10, 20), share("only", 4, 20))
    (low1, high1), (low2, high2) = (bounds(share("x", right, 20)) for right in (8, 10))
    assert gap.value == pytest.approx(-0.1)
    assert gap.low == pytest.approx(-0.1 - hypot(0.4 - low1, high2 - 0.5))
    assert gap.high == pytest.approx(-0.1 + hypot(high1 - 0.4, 0.5 - low2))


def test_agreement_narrows_the_interval_and_swapping_mirrors_it() -> None:
    def gap(first: int, second: int, only: int) -> tuple[float, float]:
        return bounds(share_difference(*(share("x", count, 40) for count in (first, second, only))))

    agreeing, by_chance, opposed = gap(30, 20, 10), gap(30, 20, 15), gap(30, 20, 20)
    widths = [high - low for low, high in (agreeing, by_chance, opposed)]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]
    assert agreeing[0] > 0 > opposed[0]
    assert gap(20, 30, 0) == pytest.approx((-agreeing[1], -agreeing[0]))
    low, high = gap(40, 40, 0)
    assert low < 0 < high, "two perfect shares of 40 do not show that they are equal"
    with pytest.raises(ValueError, match="expected shares of the same examples, got 40, 30, 40"):
        share_difference(share("x", 1, 40), share("y", 1, 30), share("z", 0, 40))


def test_six_of_six_tell_two_arms_apart_and_five_of_five_do_not() -> None:
    assert sign_test(6, 0) == pytest.approx(2 / 2**6)
    assert sign_test(0, 6) == sign_test(6, 0) < 0.05 < sign_test(5, 0)
    assert sign_test(7, 7) == sign_test(0, 0) == 1.0


def test_cases_that_stand_or_fall_together_are_fewer_than_they_look() -> None:
    together = clustered_wilson([4, 4, 4, 4, 0, 0, 0, 0], [4] * 8)
    alone = clustered_wilson([2, 2, 2, 2, 2, 2, 2, 2], [4] * 8)
    assert together[1] - together[0] > alone[1] - alone[0] > wilson(16, 32)[1] - wilson(16, 32)[0]
    assert together[0] < wilson(4, 8)[0], "no narrower than one case per cluster"
    none, every = clustered_wilson([0, 0, 0], [4, 4, 4]), clustered_wilson([4, 4, 4], [4, 4, 4])
    assert none[0] == 0 < none[1]
    assert every == pytest.approx((1 - none[1], 1))
    assert clustered_wilson([1, 0], [2, 0]) == (0, 1), "one cluster says nothing of others"
    with pytest.raises(ValueError, match="share: expected 0 <= successes <= size in every cluster"):
        clustered_wilson([3], [2])


def test_a_mean_over_teachers_is_as_unsure_as_the_teachers_differ() -> None:
    alike = crossed_mean("cover", {(teacher, 0): share("cover", 270, 300) for teacher in range(5)})
    apart = crossed_mean("cover", {(teacher, 0): share("cover", 250 + 10 * teacher, 300) for teacher in range(5)})
    assert alike.value == apart.value == pytest.approx(0.9)
    assert bounds(alike) == pytest.approx(bounds(share("cover", 270, 300)))
    assert bounds(apart)[0] < bounds(alike)[0]
    assert (alike.n, apart.n) == (1, 5)

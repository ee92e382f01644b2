"""Intervals for what was counted, and differences between two things measured on the same teachers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean, stdev

from scipy.stats import binomtest, f, t

from keepset.paper.result import Coordinate, Metric
from keepset.statistics import CONFIDENCE, clustered_wilson, wilson


def share(what: str, successes: int, n: int, **at: Coordinate) -> Metric:
    """A share with its Wilson 95 % interval."""
    low, high = wilson(successes, n)
    return Metric(what=what, at=at, value=successes / n, n=n, low=low, high=high)


def marked_share(what: str, right: Sequence[bool], **at: Coordinate) -> Metric:
    """A share that keeps who was right, so that it can be paired with another of the same examples."""
    marks = "".join("1" if one else "0" for one in right)
    return share(what, sum(right), len(right), **at).model_copy(update={"each": marks})


def clustered_share(what: str, successes: Sequence[int], sizes: Sequence[int], **at: Coordinate) -> Metric:
    """A share of cases that come in clusters, with an interval that knows it."""
    low, high = clustered_wilson(successes, sizes)
    n = sum(sizes)
    return Metric(what=what, at=at, value=sum(successes) / n, n=n, low=low, high=high)


def mean_of(what: str, values: Sequence[float], **at: Coordinate) -> Metric:
    """A mean of independent values with its 95 % t interval."""
    if len(values) < 2:
        raise ValueError(f"{what}: expected at least 2 values, got {len(values)}: one has no spread")
    mean, half = fmean(values), _half_t(values)
    return Metric(what=what, at=at, value=mean, n=len(values), low=mean - half, high=mean + half)


def pooled(what: str, parts: Iterable[Metric]) -> Metric:
    """Shares of different examples as one share."""
    found = list(parts)
    return share(what, sum(round(part.value * part.n) for part in found), sum(part.n for part in found))


@dataclass(frozen=True)
class PairedDifference:
    """First minus second, measured once per teacher."""

    mean: float
    standard_error: float
    """Of the mean, over teachers."""
    p_value: float
    """Two-sided paired t-test of no difference."""
    n: int
    """Teachers."""

    def metric(self, what: str) -> Metric:
        """The mean difference with its 95 % t interval."""
        half = float(t.ppf(0.5 + CONFIDENCE / 2, self.n - 1)) * self.standard_error
        return Metric(what=what, value=self.mean, n=self.n, low=self.mean - half, high=self.mean + half)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """Compares two arms on the same teachers, given in the same order."""
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"paired difference: expected as many values in both arms, at least 2, got {len(first)} and {len(second)}"
        )
    n = len(first)
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean, error = fmean(differences), stdev(differences) / n**0.5
    if error == 0:  # all teachers agree exactly: t is 0 / 0 or infinite
        return PairedDifference(mean, 0.0, float(mean == 0), n)
    return PairedDifference(mean, error, float(2 * t.sf(abs(mean) / error, n - 1)), n)


def share_difference(first: Metric, second: Metric, only_first: Metric) -> Metric:
    """First share minus second, of the same examples, with Newcombe's 95 % interval for paired shares.

    ``only_first`` is the share that is right in the first and wrong in the second: the more the two agree, the
    narrower the interval. Its ends come from the Wilson intervals of both shares and their correlation.
    """
    if not first.n == second.n == only_first.n:
        raise ValueError(
            f"{first.what}: expected shares of the same examples, got {first.n}, {second.n}, {only_first.n}"
        )
    n = first.n
    right, other, one = (round(metric.value * n) for metric in (first, second, only_first))
    both = right - one
    neither = n - one - other
    spread = sqrt(right * (n - right) * other * (n - other))
    agreement: float = both * neither - one * (other - both)
    if agreement > 0:
        agreement = max(0.0, agreement - n / 2)
    phi = agreement / spread if spread else 0.0
    (low1, high1), (low2, high2) = bounds(first), bounds(second)
    value = first.value - second.value
    return Metric(
        what=f"{first.what} minus {second.what}",
        value=value,
        n=n,
        low=value - _third_side(first.value - low1, high2 - second.value, phi),
        high=value + _third_side(high1 - first.value, second.value - low2, phi),
    )


def clustered_difference(what: str, clusters: Sequence[Sequence[int]]) -> Metric:
    """The mean of differences of outcomes (-1, 0, 1) that come in clusters, with a 95 % t interval over clusters:
    questions of one document stand or fall together. ``n`` counts the differences."""
    if len(clusters) < 2 or not all(clusters):
        raise ValueError(f"{what}: expected at least 2 clusters, none empty, got {len(clusters)}")
    n, k = sum(map(len, clusters)), len(clusters)
    mean = sum(map(sum, clusters)) / n
    spread = sum((sum(cluster) - mean * len(cluster)) ** 2 for cluster in clusters)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, k - 1)) * sqrt(k / (k - 1) * spread) / n
    return Metric(what=what, value=mean, n=n, low=max(-1.0, mean - half), high=min(1.0, mean + half))


Cells = Mapping[tuple[int, int], Metric]
"""Teacher and router seed -> a share of the same examples."""


def crossed_difference(what: str, first: Cells, second: Cells) -> Metric:
    """Mean of first minus mean of second, with a 95 % interval over teachers, routers and examples together.

    Half a t interval over teachers, half of one over router seeds and half of one over the examples, which count once
    because everybody answers the same ones, added in quadrature: wide rather than narrow, since each of the first two
    holds some of the others' noise. Examples are paired where every share says which of them were right; where not,
    Newcombe's interval takes the place. ``n`` counts trainings that show something of their own: teachers times
    routers, where teachers (or routers) whose differences are identical are one.
    """
    if not first or first.keys() != second.keys():
        raise ValueError(
            f"{what}: expected the same teachers and routers in both arms, got {len(first)} and {len(second)}"
        )
    gaps = {place: first[place].value - second[place].value for place in first}
    by_teacher, by_router = (_means(gaps, side) for side in (0, 1))
    over_trainings = hypot(_half_t(by_teacher), _half_t(by_router))
    below, above = _over_examples(first, second)
    value = fmean(gaps.values())
    return Metric(
        what=what,
        value=value,
        n=_different(by_teacher) * _different(by_router),
        low=value - hypot(over_trainings, below),
        high=value + hypot(over_trainings, above),
    )


def _over_examples(first: Cells, second: Cells) -> tuple[float, float]:
    """How far a difference reaches down and up over the examples: never less than what as many that never differed
    would leave open."""
    marks = [[cell.each for cell in cells.values() if cell.each] for cells in (first, second)]
    if len(marks[0]) == len(marks[1]) == len(first):
        means = [[fmean(map(int, one)) for one in zip(*each, strict=True)] for each in marks]
        gaps = [one - other for one, other in zip(*means, strict=True)]
        half = max(_half_t(gaps), wilson(0, len(gaps))[1])
        return half, half
    (p1, low1, high1), (p2, low2, high2) = _examples_once(first), _examples_once(second)
    return hypot(p1 - low1, high2 - p2), hypot(high1 - p1, p2 - low2)


def crossed_mean(what: str, cells: Cells) -> Metric:
    """Mean of a share with a 95 % interval over teachers, routers and examples together, as in a difference of two."""
    values = {place: metric.value for place, metric in cells.items()}
    by_teacher, by_router = (_means(values, side) for side in (0, 1))
    over_trainings = hypot(_half_t(by_teacher), _half_t(by_router))
    mean, low, high = _examples_once(cells)
    return Metric(
        what=what,
        value=mean,
        n=_different(by_teacher) * _different(by_router),
        low=max(0.0, mean - hypot(over_trainings, mean - low)),
        high=min(1.0, mean + hypot(over_trainings, high - mean)),
    )


def _means(gaps: Mapping[tuple[int, int], float], side: int) -> list[float]:
    """One mean per teacher (side 0) or router (side 1)."""
    groups: dict[int, list[float]] = {}
    for place, gap in gaps.items():
        groups.setdefault(place[side], []).append(gap)
    return [fmean(group) for group in groups.values()]


def _half_t(means: Sequence[float]) -> float:
    if len(means) < 2:
        return 0.0
    return float(t.ppf(0.5 + CONFIDENCE / 2, len(means) - 1)) * stdev(means) / sqrt(len(means))


def _different(means: Sequence[float]) -> int:
    """How many observations they are: five identical ones are one."""
    return len(means) if max(means) - min(means) > 1e-9 else 1


def _examples_once(cells: Cells) -> tuple[float, float, float]:
    """The mean share with the Wilson interval of one set of examples."""
    mean = fmean(metric.value for metric in cells.values())
    n = min(metric.n for metric in cells.values())
    return mean, *wilson(round(mean * n), n)


def spread_ratio(first: Sequence[float], second: Sequence[float], what: str) -> Metric:
    """Standard deviation of the first over that of the second, with a 95 % interval (F); ``n`` counts both."""
    ratio = stdev(first) / stdev(second)
    df1, df2 = len(first) - 1, len(second) - 1
    reach = [sqrt(float(f.ppf(0.5 + CONFIDENCE / 2, *dfs))) for dfs in ((df1, df2), (df2, df1))]
    return Metric(what=what, value=ratio, n=len(first) + len(second), low=ratio / reach[0], high=ratio * reach[1])


def sign_test(only_first: int, only_second: int) -> float:
    """Two-sided exact p of no difference, from the examples on which just one of two is right (McNemar, exact)."""
    differing = only_first + only_second
    return float(binomtest(only_first, differing).pvalue) if differing else 1.0


def _third_side(a: float, b: float, cosine: float) -> float:
    return sqrt(max(0.0, a * a + b * b - 2 * cosine * a * b))


def bounds(metric: Metric) -> tuple[float, float]:
    """The ends of a metric's interval, which it must have."""
    if metric.low is None or metric.high is None:
        raise ValueError(f"{metric.what}: expected an interval, got none")
    return metric.low, metric.high

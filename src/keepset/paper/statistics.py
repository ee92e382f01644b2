"""Intervals for what was counted, and differences between two things measured on the same teachers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.stats import binomtest, t

from keepset.paper.result import Coordinate, Metric
from keepset.statistics import CONFIDENCE, wilson


def share(what: str, successes: int, n: int, **at: Coordinate) -> Metric:
    """A share with its Wilson 95 % interval."""
    low, high = wilson(successes, n)
    return Metric(what=what, at=at, value=successes / n, n=n, low=low, high=high)


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
    """The mean of differences that come in clusters, with a 95 % t interval over clusters: questions of one document
    stand or fall together. ``n`` counts the differences."""
    if len(clusters) < 2 or not all(clusters):
        raise ValueError(f"{what}: expected at least 2 clusters, none empty, got {len(clusters)}")
    n, k = sum(map(len, clusters)), len(clusters)
    mean = sum(map(sum, clusters)) / n
    spread = sum((sum(cluster) - mean * len(cluster)) ** 2 for cluster in clusters)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, k - 1)) * sqrt(k / (k - 1) * spread) / n
    return Metric(what=what, value=mean, n=n, low=mean - half, high=mean + half)


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

"""Intervals for what was counted."""

from scipy.stats import norm

from keepset.results import Metric

CONFIDENCE = 0.95


def proportion(name: str, successes: int, n: int) -> Metric:
    """A share with its Wilson 95 % interval, which stays inside [0, 1] and is honest near 0 and 1."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{name}: expected 0 <= successes <= n and n >= 1, got {successes} of {n}")
    z = float(norm.ppf(0.5 + CONFIDENCE / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * ((share * (1 - share) + z * z / (4 * n)) / n) ** 0.5 / (1 + z * z / n)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Metric(name=name, value=share, n=n, low=low, high=high)

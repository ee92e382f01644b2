"""Intervals for what was counted."""

from collections.abc import Sequence

from scipy.stats import norm, t

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))
"""Standard errors on each side of a 95 % interval."""


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The Wilson 95 % interval of a share, which stays inside [0, 1] and is honest near 0 and 1."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"share: expected 0 <= successes <= n and n >= 1, got {successes} of {n}")
    return _wilson(successes / n, n, Z)


def clustered_wilson(successes: Sequence[int], sizes: Sequence[int]) -> tuple[float, float]:
    """The same of a share whose cases come in clusters that stand or fall together: the questions of a document.

    Wilson's, for as many independent cases as clusters that differ this much are worth, at most all of them, and as
    many as there are clusters where no case differs from another; with t for the number of clusters.
    """
    clusters = [(found, size) for found, size in zip(successes, sizes, strict=True) if size]
    if not clusters or any(not 0 <= found <= size for found, size in clusters):
        raise ValueError(f"share: expected 0 <= successes <= size in every cluster, got {successes} of {sizes}")
    n, k = sum(sizes), len(clusters)
    value = sum(successes) / n
    if k == 1:
        return 0.0, 1.0
    spread = k / (k - 1) * sum((found - value * size) ** 2 for found, size in clusters) / n**2
    alike = value in (0, 1)
    worth = k if alike else n if spread == 0 else min(n, value * (1 - value) / spread)
    return _wilson(value, worth, float(t.ppf(0.5 + CONFIDENCE / 2, k - 1)))


def _wilson(value: float, n: float, z: float) -> tuple[float, float]:
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z * ((value * (1 - value) + z * z / (4 * n)) / n) ** 0.5 / (1 + z * z / n)
    return (0.0 if value == 0 else centre - half), (1.0 if value == 1 else centre + half)

"""Intervals for what was counted."""

from scipy.stats import norm

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))
"""Standard errors on each side of a 95 % interval."""


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The Wilson 95 % interval of a share, which stays inside [0, 1] and is honest near 0 and 1."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"share: expected 0 <= successes <= n and n >= 1, got {successes} of {n}")
    centre = (successes / n + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * ((successes / n * (1 - successes / n) + Z * Z / (4 * n)) / n) ** 0.5 / (1 + Z * Z / n)
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)

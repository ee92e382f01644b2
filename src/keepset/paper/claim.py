"""What the paper rests on, claim by claim: does it hold here?

Each claim has a number, its interval and n, and one of three verdicts. A claim about a difference holds when the whole
95 % interval is on its side, fails when it is on the other, and cannot be told when the interval has both. An ordering
of routers is judged by an interval over teachers, routers and examples; a bar that every teacher or router has to
reach, by each one's own interval over examples. Either way few independent units tell nothing (``FEWEST``).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from keepset.paper.result import Metric
from keepset.paper.statistics import Cells, bounds, crossed_difference

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
NOT_TESTED = "not tested"
FEWEST = 20
"""Independent units under which nothing is told, whatever the interval says."""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and what came out here."""

    claim: str
    paper: str
    here: str
    n: str
    verdict: str
    own_choice: str = NOT_TESTED
    """Where the claim fails: what was run to tell whether a choice of ours is the cause."""
    bar_is_ours: bool = False
    """The paper's own figure misses the bar, too: to fail it contradicts nobody."""


def side_of_zero(gap: Metric, ahead: bool) -> str:
    """At least zero, or more than zero where it has to be ``ahead``."""
    low, high = bounds(gap)
    return HOLDS if low > 0 or (low == 0 and not ahead) else FAILS if high < 0 else OPEN


def told(verdict: str, units: int) -> str:
    """The verdict, if enough independent units stand behind it."""
    return verdict if units >= FEWEST else OPEN


def above(share: Metric, bar: float) -> str:
    low, high = bounds(share)
    return HOLDS if low >= bar else FAILS if high < bar else OPEN


def below(share: Metric, bar: float) -> str:
    low, high = bounds(share)
    return HOLDS if high <= bar else FAILS if low > bar else OPEN


def worst(verdicts: Collection[str]) -> str:
    """Of a claim that has to hold for each of several: one that fails is enough to fail it."""
    return next(verdict for verdict in (FAILS, OPEN, HOLDS) if verdict in verdicts)


def interval(share: Metric) -> str:
    return f"{share.value:.3f} ({share.low:.3f} to {share.high:.3f})"


def signed_interval(gap: Metric) -> str:
    return f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"


def ahead_claim(claim: str, paper: str, first: Cells, second: Cells, ahead: bool = True) -> Claim:
    """Is the first arm ahead of (or at least) the second, over teachers, routers and examples?"""
    gap = crossed_difference(claim, first, second)
    teachers, routers = ({place[side] for place in first} for side in (0, 1))
    n = f"{len(teachers)} teachers × {len(routers)} routers"
    if gap.n < len(teachers) * len(routers):
        n += f", {gap.n} different"
    return Claim(claim, paper, signed_interval(gap), n, told(side_of_zero(gap, ahead), gap.n))


def every_claim(claim: str, paper: str, found: Sequence[Metric], bar: float, n: str) -> Claim:
    """Each of them for itself has to reach ``bar``."""
    lowest = min(found, key=lambda metric: metric.value)
    highest = max(metric.value for metric in found)
    here = interval(lowest) if len(found) == 1 else f"{lowest.value:.2f} to {highest:.2f}; lowest {interval(lowest)}"
    return Claim(claim, paper, here, n, worst({above(metric, bar) for metric in found}))


def none_claim(claim: str, paper: str, found: Sequence[Metric], bar: float, n: str) -> Claim:
    """None of them may be over ``bar``."""
    highest = max(found, key=lambda metric: metric.value)
    lowest = min(metric.value for metric in found)
    here = f"{lowest:.2f} to {highest.value:.2f}; highest {interval(highest)}"
    return Claim(claim, paper, here, n, worst({below(metric, bar) for metric in found}))

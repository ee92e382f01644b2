"""What the paper claims of labels across teachers: evidence sets agree better than attention, also under copies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import hypot, sqrt
from statistics import fmean

from scipy.stats import t

from keepset.paper.agreement.run import CONDITIONS, COPIES
from keepset.paper.agreement.tables import PAPER_AGREEMENT, conditions, of_the_tables
from keepset.paper.claim import Claim, every_claim, side_of_zero, signed_interval
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.statistics import CONFIDENCE

Z = 1.96
"""Of a 95 % interval."""
WIDEST = 0.5
"""Standard deviation of a share between 0 and 1, at most; single examples are not stored."""


OTHER_TEACHERS = "agreement-starts has teachers of half the records whose attention started soft"
"""Where a reader finds the other choice."""


def claims(every: Results) -> list[Claim]:
    """Of the teachers that the tables rest on."""
    results = of_the_tables(every)
    papers = {name: (float(causal), float(adaptive)) for name, (adaptive, _, causal) in PAPER_AGREEMENT.items()}
    found = {name: (title, f"{papers[name][0] - papers[name][1]:+.2f}") for name, title in conditions(results).items()}
    if found.keys() != CONDITIONS.keys():
        return []
    return [replace(claim, own_choice=OTHER_TEACHERS) for claim in agreement_claims(results, found, COPIES)]


def jackknifed(what: str, teachers: Sequence[int], n: int, gap: Callable[[int, int], float]) -> Metric:
    """The mean of ``gap`` over pairs of teachers with a 95 % interval over teachers (jackknife: a pair shares its
    teachers with others) and over examples (the widest that two overlaps can have)."""
    gaps = {pair: gap(*pair) for pair in combinations(teachers, 2)}
    without = [fmean(value for pair, value in gaps.items() if teacher not in pair) for teacher in teachers]
    count = len(teachers)
    error = sqrt((count - 1) / count * sum((value - fmean(without)) ** 2 for value in without))
    over_teachers = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * error
    half = hypot(over_teachers, Z * WIDEST * sqrt(2 / n))
    value = fmean(gaps.values())
    return Metric(what=what, value=value, n=n, low=value - half, high=value + half)


def agreement_claims(results: Results, tasks: dict[str, tuple[str, str]], copies: dict[int, str]) -> list[Claim]:
    """``tasks``: name -> title, the paper's causal minus adaptive; ``copies``: number -> condition."""
    config = results.run().config
    teachers: list[int] = config["teachers"]
    if len(teachers) < 3:  # two teachers are one pair: nothing to leave out
        return []
    n = results.run().counts["examples"]
    units = f"{len(teachers)} teachers × {n} examples"

    def minus(first: tuple[str, str], second: tuple[str, str], one: int, other: int) -> float:
        """The overlap of two teachers under one condition and label, minus that under another."""
        overlaps = [
            results.value("jaccard", condition=condition, label=label, teacher=one, other_teacher=other)
            for condition, label in (first, second)
        ]
        return overlaps[0] - overlaps[1]

    claims = []
    for condition, (title, paper) in tasks.items():
        gap = jackknifed(title, teachers, n, partial(minus, (condition, "causal"), (condition, "adaptive")))
        claim = f"{title}: evidence sets agree across teachers better than adaptive attention"
        claims.append(Claim(claim, paper, signed_interval(gap), units, side_of_zero(gap, ahead=True)))
    fewest, most = copies[min(copies)], copies[max(copies)]
    for title, high, low in (
        ("agreement of ablation labels falls", (fewest, "ablation"), (most, "ablation")),
        ("agreement of evidence sets rises", (most, "causal"), (fewest, "causal")),
    ):
        change = jackknifed(title, teachers, n, partial(minus, high, low))
        claim = f"From {min(copies)} to {max(copies)} copies the {title}"
        claims.append(Claim(claim, "yes", signed_interval(change), units, side_of_zero(change, ahead=True)))
    cover = [results.metric("cover", condition=c, label="causal", teacher=k) for c in tasks for k in teachers]
    title = "Evidence sets cover a sufficient set on 0.95 or more, on every teacher and task"
    stale = [results.metric("holds_obsolete", condition="latest_write", label="adaptive", teacher=k) for k in teachers]
    obsolete = "Latest write: the adaptive set holds an obsolete write on 0.95 or more, on every teacher"
    return [
        *claims,
        every_claim(title, "more than 0.99", cover, 0.95, units),
        every_claim(obsolete, "1.00", stale, 0.95, units),
    ]

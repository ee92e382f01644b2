"""What the paper rests on, claim by claim: does it hold here?

Each line has a number, its interval and n, and one of three verdicts. A claim about a difference holds when the whole
95 % interval is on its side, fails when it is on the other, and cannot be told when the interval has both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.stats import f_oneway, pearsonr

from keepset.paper.chains_report import seeds
from keepset.paper.result import Metric, RunResult
from keepset.paper.routing_report import CONDITIONS, PAPER, from_source, paired_gap
from keepset.paper.statistics import bounds, proportion
from keepset.paper.table import Table

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
CONVERGED = 0.9
"""Dense accuracy on multi-hop above which a teacher has learned chains; the paper's failed one has 0.07."""
CAUSAL_FLOOR = 0.95
WHOLE_CONTEXT = 0.995
"""What prints as 1.00."""
CHANCE = 0.2
"""Of a constant answer to aggregation."""


@dataclass(frozen=True)
class Line:
    """One claim."""

    claim: str
    paper: str
    here: str
    n: str
    verdict: str


def orderings_table(lines: list[Line]) -> Table:
    return Table(
        name="orderings",
        caption=(
            "Each ordering the paper rests on, at small scale. Intervals are 95 %: over teachers for paired "
            "differences (t), over examples for shares (Wilson)."
        ),
        columns=("Claim", "Paper", "Here", "n", "Verdict"),
        rows=tuple((line.claim, line.paper, line.here, line.n, line.verdict) for line in lines),
    )


def single_record_lines(routed: list[RunResult]) -> list[Line]:
    """Causal against imitation, one line per condition; under length shift it has to be ahead."""
    result = from_source(routed, 0)
    n = f"{len(result.config['teachers'])} teachers × {result.config['router_seeds']} routers"
    lines = []
    for condition, title in CONDITIONS.items():
        gap = paired_gap(result, condition).metric(condition)
        shifted = condition.endswith(("2x", "4x"))
        claim = f"{title}: causal ahead of imitation" if shifted else f"{title}: causal at least imitation"
        lines.append(Line(claim, PAPER[condition][3], signed_interval(gap), n, side_of_zero(gap, ahead=shifted)))
    return lines


def chain_lines(routed: list[RunResult]) -> list[Line]:
    """Causal routers on every converged teacher; imitation's spread, and what explains it."""
    converged = [result for result in routed if result.metric("dense_multihop").value >= CONVERGED]
    if len(converged) < 2:
        return []
    lowest = min(converged, key=lambda result: fmean(seeds(result, "causal_multihop")))
    worst = pooled(lowest, "causal_multihop")
    spreads = [seeds(result, "attention_multihop") for result in converged]
    means = [fmean(values) for values in spreads]
    p_value = float(f_oneway(*spreads).pvalue)
    within = max(max(values) - min(values) for values in spreads)
    recall = {
        record: [value for result in converged for value in seeds(result, f"attention_multihop_record{place}")]
        for place, record in enumerate(("first pointer", "second pointer", "value"))
    }
    accuracy = [value for values in spreads for value in values]
    routers = f"{len(converged)} teachers × {converged[0].config['router_seeds']} routers"
    return [
        Line(
            "Multi-hop: causal routers at 0.95 or more on every converged teacher",
            "0.99 to 1.00",
            f"lowest teacher {interval(worst)}",
            f"{len(converged)} teachers; {worst.n} answers",
            above(worst, CAUSAL_FLOOR),
        ),
        Line(
            "Multi-hop: imitation moves across teachers by more than across router seeds",
            "0.36 to 0.98; seeds within 0.08",
            f"{min(means):.2f} to {max(means):.2f}; seeds within {within:.2f}; p = {p_value:.1g} (one-way analysis)",
            routers,
            HOLDS if p_value < 0.05 and max(means) - min(means) > within else OPEN,
        ),
        Line(
            "Multi-hop: second-pointer recall explains imitation's accuracy",
            "recall 0.00 to 0.99, the others near 1.00; accuracy 0.37 to 0.98",
            "; ".join(f"{record} {min(found):.2f} to {max(found):.2f}" for record, found in recall.items())
            + f"; accuracy {min(accuracy):.2f} to {max(accuracy):.2f}",
            routers,
            explains(recall["second pointer"], accuracy),
        ),
    ]


def pooling_lines(results: list[RunResult]) -> list[Line]:
    """The best label for pooling routers on multi-hop is still a failure."""
    (ablation,) = results
    arms = [f"attention_{loss}" for loss in ("kl", "sparse_kl", "coverage")]
    arms += ["all_positions_kl", "causal_coverage", "causal_kl"]
    shares = {arm: pooled_over_teachers(ablation, arm, "multihop") for arm in arms}
    best = max(shares, key=lambda arm: shares[arm].value)
    return [
        Line(
            "Multi-hop: pooling routers fail under every label (under half right)",
            "0.01 to 0.10",
            f"best label {interval(shares[best])} ({best})",
            f"{len(ablation.config['teachers'])} teachers × {ablation.config['router_seeds']} routers",
            below(shares[best], 0.5),
        )
    ]


def per_query_lines(per_query: list[RunResult]) -> list[Line]:
    """Selecting per query leaves the whole context resident."""
    lines = []
    for protocol, title in (("per_layer", "per layer"), ("layer_averaged", "layer-averaged")):
        found = [result.metric(f"{protocol}_multihop_context").value for result in per_query]
        lines.append(
            Line(
                f"Per-query selection, {title}, keeps a context budget of 1.00",
                "1.00",
                f"{min(found):.3f} to {max(found):.3f}",
                f"{len(per_query)} teachers × {per_query[0].counts['examples']} examples",
                HOLDS if min(found) >= WHOLE_CONTEXT else FAILS,
            )
        )
    return lines


def aggregation_lines(budget: list[RunResult]) -> list[Line]:
    """Counting cannot be had from a part of the context."""
    n_blocks = budget[0].config["n_blocks"]
    shares = {k: pooled_over_results(budget, f"aggregation_k{k}") for k in range(1, n_blocks + 1)}
    partial = max((k for k in shares if k < n_blocks), key=lambda k: shares[k].value)
    verdict = HOLDS if (shares[partial].low or 0) <= CHANCE else FAILS
    return [
        Line(
            "Aggregation at chance (0.2) until the full context",
            "0.2",
            f"best part {interval(shares[partial])} at k = {partial} of {n_blocks}; full {shares[n_blocks].value:.2f}",
            f"{len(budget)} teachers, {shares[partial].n} answers",
            verdict,
        )
    ]


def pooled(result: RunResult, name: str) -> Metric:
    """All router seeds of one result as one share."""
    return joined(name, [result.metric(f"{name}_r{seed}") for seed in range(result.config["router_seeds"])])


def pooled_over_teachers(result: RunResult, arm: str, condition: str) -> Metric:
    return joined(
        arm,
        [
            result.metric(f"{arm}_{condition}_t{teacher}_r{seed}")
            for teacher in result.config["teachers"]
            for seed in range(result.config["router_seeds"])
        ],
    )


def pooled_over_results(results: list[RunResult], name: str) -> Metric:
    return joined(name, [result.metric(name) for result in results])


def joined(name: str, parts: list[Metric]) -> Metric:
    return proportion(name, sum(round(part.value * part.n) for part in parts), sum(part.n for part in parts))


def side_of_zero(gap: Metric, ahead: bool) -> str:
    """At least zero, or more than zero where it has to be ``ahead``."""
    low, high = bounds(gap)
    return HOLDS if low > 0 or (low == 0 and not ahead) else FAILS if high < 0 else OPEN


def explains(recall: Sequence[float], accuracy: Sequence[float]) -> str:
    """A record that is always kept explains no failure; otherwise the two have to rise together."""
    if min(recall) >= CAUSAL_FLOOR:
        return FAILS if min(accuracy) < CAUSAL_FLOOR else OPEN
    low, high = pearsonr(recall, accuracy).confidence_interval()
    return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def above(share: Metric, bar: float) -> str:
    low, high = bounds(share)
    return HOLDS if low >= bar else FAILS if high < bar else OPEN


def below(share: Metric, bar: float) -> str:
    low, high = bounds(share)
    return HOLDS if high <= bar else FAILS if low > bar else OPEN


def interval(share: Metric) -> str:
    return f"{share.value:.3f} ({share.low:.3f} to {share.high:.3f})"


def signed_interval(gap: Metric) -> str:
    return f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"

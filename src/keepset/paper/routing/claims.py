"""What the paper claims of routers on single-record tasks, and what came out."""

from collections.abc import Callable
from statistics import fmean

from keepset.paper.claim import OPEN, Claim, above, ahead_claim, below, told, worst
from keepset.paper.pooling import routed_cells
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.paper.routing.run import CONDITIONS, SOURCE
from keepset.paper.routing.tables import PAPER, PAPER_OWN, every_source, source_and_seed_means
from keepset.paper.statistics import Cells, spread_ratio
from keepset.paper.table import spread


def single_record_claims(results: Results) -> list[Claim]:
    """Labels of teacher 0; with every teacher as a source, each teacher's own labels and transfer too."""
    claims = [supervised(results, condition) for condition in CONDITIONS]
    if every_source(results):
        claims += [own_labels(results, condition) for condition in CONDITIONS if shifted(condition)]
        claims += transfer_claims(results)
    return claims


def shifted(condition: str) -> bool:
    """Longer than in training: where the paper has the causal router ahead and not just level."""
    return condition.endswith(("2x", "4x"))


def supervised(results: Results, condition: str) -> Claim:
    causal, imitation = (routed_cells(results, condition, arm=arm, source=SOURCE) for arm in ("causal", "imitation"))
    ahead = shifted(condition)
    claim = f"{CONDITIONS[condition]}: causal {'ahead of' if ahead else 'at least'} imitation"
    return ahead_claim(claim, PAPER[condition][3], causal, imitation, ahead)


def own_labels(results: Results, condition: str) -> Claim:
    """Each router on the teacher whose labels it learned from."""

    def own(arm: str) -> Cells:
        return {
            place: metric
            for teacher in results.coordinates("teacher")
            for place, metric in routed_cells(results, condition, arm=arm, source=teacher).items()
            if place[0] == teacher
        }

    claim = f"{CONDITIONS[condition]}, each teacher's own labels: causal ahead of imitation"
    return ahead_claim(claim, PAPER_OWN[condition], own("causal"), own("imitation"))


def transfer_claims(results: Results) -> list[Claim]:
    """Does it matter more whose labels a router learned from than where it started? One statistic on both sides."""

    def against_seeds(arm: str, verdict: Callable[[Metric, float], str], claim: str, paper: str) -> Claim:
        ratios, verdicts = [], set()
        for condition in CONDITIONS:
            by_source, by_seed = source_and_seed_means(results, arm, condition)
            sources, seeds = (over_destinations(means) for means in (by_source, by_seed))
            if len(set(seeds)) == 1:  # at the ceiling: nothing to compare with
                verdicts.add(OPEN)
                continue
            ratio = spread_ratio(sources, seeds, "source over seed")
            ratios.append(ratio.value)
            verdicts.add(told(verdict(ratio, 1.0), len(sources) * len(seeds)))
        shown = f"{spread(ratios)} times in {len(ratios)} of {len(CONDITIONS)} conditions" if ratios else "no spread"
        n = f"{len(results.coordinates('source'))} sources × {len(results.coordinates('router_seed'))} routers"
        return Claim(claim, paper, shown, n, worst(verdicts))

    return [
        against_seeds(
            "imitation",
            above,
            "Whose attention a router learned from matters more than where it started, in every condition",
            "2 to 6 times",
        ),
        against_seeds(
            "causal",
            below,
            "Whose evidence sets a router learned from matters less than where it started, in every condition",
            "0.2 to 0.9 times",
        ),
    ]


def over_destinations(means: dict[int, list[float]]) -> list[float]:
    """One mean per source (or seed) over the teachers that were routed."""
    return [fmean(column) for column in zip(*means.values(), strict=True)]

"""Is the causal router ahead of each policy a user could run instead?"""

from dataclasses import dataclass

from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim, signed_interval, told
from keepset.paper.eviction.columns import (
    ALL_CONDITIONS,
    CAUSAL,
    CONDITIONS,
    CONTROL,
    IMITATION,
    MODES,
    PRE_QUERY,
    Arm,
    percent,
)
from keepset.paper.eviction.paper_numbers import MAIN_BUDGET, PAPER
from keepset.paper.eviction.pool import Pool, pooled, titles
from keepset.paper.eviction.tables import paper_note
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.paper.statistics import bounds, share_difference, sign_test
from keepset.paper.statistics import pooled as summed
from keepset.paper.table import Table

RIVALS = (Arm("h2o"), Arm("snapkv"), IMITATION, Arm("kvzip"), Arm("recency"), Arm("random"))
"""Before every other policy that is not among the paper's columns."""
CLAIMED = (IMITATION, Arm("h2o"), Arm("momentkv"), Arm("kvzip"))
"""What the paper puts the causal router ahead of before the question is known, and the strongest that it leaves out."""
ALL_TASKS = "all tasks"
LEVEL = 0.05

Asked = list[tuple[Pool, str]]
"""Conditions of pools, taken together."""


@dataclass(frozen=True)
class Ahead:
    """The causal router (seed 0) against one policy on the same questions."""

    gap: Metric
    verdict: str


def compare(asked: Asked, mode: str, rival: Arm) -> Ahead | None:
    """None where one of them was not run."""
    shares = [
        (
            pool.share(condition, "pre_query", mode, CAUSAL, MAIN_BUDGET),
            pool.share(condition, "pre_query", mode, rival, MAIN_BUDGET),
            pool.only_causal(condition, mode, rival, MAIN_BUDGET),
        )
        for pool, condition in asked
    ]
    columns = [[share for share in column if share] for column in zip(*shares, strict=True)]
    if not all(columns):
        return None
    causal, other, only_causal = (summed("preserved", column) for column in columns)
    gap = share_difference(causal, other, only_causal)
    low, high = bounds(gap)
    only_other = only_causal.value - gap.value
    told = sign_test(round(only_causal.value * gap.n), round(only_other * gap.n)) < LEVEL
    return Ahead(gap, HOLDS if low > 0 and told else FAILS if high < 0 and told else OPEN)


def eviction_orderings(results: Results) -> list[Table]:
    """By task, over tasks, over lengths."""
    pools = pooled(results)
    named = titles(pools, "pre_query")
    rivals = [*RIVALS, *(arm for arm in named if arm not in PRE_QUERY)]
    rows: list[tuple[str, ...]] = []
    for model, own in by_model(pools).items():
        for mode in MODES:
            for pool in own:
                rows.append(())
                asked = [condition for condition in pool.conditions(ALL_CONDITIONS) if pool.solved(condition)]
                for condition in asked:
                    head = (model, f"{pool.length:,}", mode, ALL_CONDITIONS[condition])
                    rows.append((*head, *ordering_cells([(pool, condition)], mode, rivals)))
                tasks = [(pool, condition) for condition in asked if condition != CONTROL]
                if len(tasks) > 1:
                    rows.append((model, f"{pool.length:,}", mode, ALL_TASKS, *ordering_cells(tasks, mode, rivals)))
            every = answered(own)
            if len({pool.length for pool, _ in every}) > 1:
                rows += [(), (model, "all", mode, ALL_TASKS, *ordering_cells(every, mode, rivals))]
    table = Table(
        name="eviction-orderings",
        caption=(
            f"Causal router (seed 0) minus each other policy, pre-query, {percent(MAIN_BUDGET)} of the blocks: "
            "difference in the share still answered, and whether the causal router is ahead."
        ),
        columns=("Model", "Length", "Mode", "Condition", "n", *(named[rival] for rival in rivals)),
        rows=tuple(rows[1:]),
        notes=(
            "Square brackets: 95 % interval of a difference of two shares of the same questions (Newcombe, paired). "
            f"Holds, or does not: the interval leaves zero out and the exact sign test has p < {LEVEL}, which takes at "
            "least six questions that tell the two apart; otherwise it cannot be told. -: not run. All tasks: without "
            "the any-query control, whose documents are those of the register log.",
            *paper_note(pools, "differences of tab:pq8k to tab:pq-staleany"),
        ),
    )
    return [table] if table.rows else []


def ordering_cells(asked: Asked, mode: str, rivals: list[Arm]) -> list[str]:
    """n, then per rival the difference, its interval, the paper's difference where it is one task, and the verdict."""
    cells = [str(sum(pool.solved(condition) for pool, condition in asked))]
    for rival in rivals:
        found = compare(asked, mode, rival)
        if found is None:
            cells.append("-")
            continue
        low, high = bounds(found.gap)
        theirs = papers_gap(asked, rival)
        cells.append(f"{found.gap.value:+.2f} [{low:+.2f} to {high:+.2f}]{theirs} {found.verdict}")
    return cells


def papers_gap(asked: Asked, rival: Arm) -> str:
    if len(asked) > 1:
        return ""
    ((pool, condition),) = asked
    theirs = [pool.paper(condition, "pre_query", arm, MAIN_BUDGET) for arm in (CAUSAL, rival)]
    return f" ({float(theirs[0]) - float(theirs[1]):+.2f})" if theirs[0] and theirs[1] else ""


def eviction_claims(results: Results) -> list[Claim]:
    """Causal ahead of each policy the paper has, over all tasks and lengths; models and modes apart."""
    claims = []
    for model, own in by_model(pooled(results)).items():
        for mode in MODES:
            for rival in CLAIMED:
                asked = answered(own)
                found = compare(asked, mode, rival) if asked else None
                if found:
                    claims.append(
                        Claim(
                            f"Pruned before the question to {percent(MAIN_BUDGET)}: causal ahead of {PRE_QUERY[rival]} "
                            f"({model}, {mode})",
                            papers_range(rival),
                            signed_interval(found.gap),
                            f"{found.gap.n} questions",
                            told(found.verdict, found.gap.n),
                        )
                    )
    return claims


def papers_range(rival: Arm) -> str:
    """The paper's smallest and largest difference."""
    theirs = [
        float(PAPER[times, condition, regime, CAUSAL, budget]) - float(value)
        for (times, condition, regime, arm, budget), value in PAPER.items()
        if (regime, arm, budget) == ("pre_query", rival, MAIN_BUDGET) and condition != CONTROL
    ]
    return f"{min(theirs):+.2f} to {max(theirs):+.2f} by task and length" if theirs else "not compared"


def by_model(pools: list[Pool]) -> dict[str, list[Pool]]:
    return {pool.model: [other for other in pools if other.model == pool.model] for pool in pools}


def answered(pools: list[Pool]) -> Asked:
    """Every task of every length, where the model answers something; not the control, which has the same documents."""
    return [(pool, task) for pool in pools for task in pool.conditions(CONDITIONS) if pool.solved(task)]

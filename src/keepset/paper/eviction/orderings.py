"""Is the causal router ahead of each policy a user could run instead?"""

from keepset.paper.eviction.pool import Pool, pooled
from keepset.paper.eviction.tables import (
    ALL_CONDITIONS,
    CONDITIONS,
    CONTROL,
    MAIN_BUDGET,
    MODES,
    PRE_QUERY,
    paper_note,
    percent,
)
from keepset.paper.orderings_report import FAILS, HOLDS, OPEN
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import bounds, proportion, share_difference, sign_test
from keepset.paper.table import Table

RIVALS = ("h2o", "snapkv", "imitation_r0", "kvzip", "recency", "random")
ALL_TASKS = "all tasks"
LEVEL = 0.05


def eviction_orderings(results: list[RunResult]) -> Table:
    """By task, over tasks, over lengths."""
    pools = pooled(results)
    rows: list[tuple[str, ...]] = []
    models = {pool.model: [p for p in pools if p.model == pool.model] for pool in pools}
    for model, own in models.items():
        for mode in MODES:
            for pool in own:
                rows.append(())
                asked = [condition for condition in pool.conditions(ALL_CONDITIONS) if pool.solved(condition)]
                for condition in asked:
                    title = ALL_CONDITIONS[condition]
                    rows.append(ordering_row(model, f"{pool.length:,}", mode, title, [(pool, condition)]))
                tasks = [(pool, condition) for condition in asked if condition != CONTROL]
                if len(tasks) > 1:
                    rows.append(ordering_row(model, f"{pool.length:,}", mode, ALL_TASKS, tasks))
            every = [(p, c) for p in own for c in p.conditions(CONDITIONS) if p.solved(c)]
            if len({pool.length for pool, _ in every}) > 1:
                rows += [(), ordering_row(model, "all", mode, ALL_TASKS, every)]
    return Table(
        name="eviction-orderings",
        caption=(
            f"Causal router (seed 0) minus each other policy, pre-query, {percent(MAIN_BUDGET)} of the blocks: "
            "difference in the share still answered, and whether the causal router is ahead."
        ),
        columns=("Model", "Length", "Mode", "Condition", "n", *(PRE_QUERY[rival] for rival in RIVALS)),
        rows=tuple(rows[1:]),
        notes=(
            "Square brackets: 95 % interval of a difference of two shares of the same questions (Newcombe, paired). "
            f"Holds, or does not: the interval leaves zero out and the exact sign test has p < {LEVEL}, which takes at "
            "least six questions that tell the two apart; otherwise it cannot be told. -: not run. All tasks: without "
            "the any-query control, whose documents are those of the register log.",
            *paper_note(pools, "differences of tab:pq8k to tab:pq-staleany"),
        ),
    )


def ordering_row(model: str, length: str, mode: str, title: str, asked: list[tuple[Pool, str]]) -> tuple[str, ...]:
    n = sum(pool.solved(condition) for pool, condition in asked)
    return (model, length, mode, title, str(n), *(ahead(asked, mode, rival) for rival in RIVALS))


def ahead(asked: list[tuple[Pool, str]], mode: str, rival: str) -> str:
    """Difference, interval, the paper's difference where it is one task, and the verdict."""
    found = [
        (
            pool.share(condition, "pre_query", mode, "causal_r0", MAIN_BUDGET),
            pool.share(condition, "pre_query", mode, rival, MAIN_BUDGET),
            pool.share(condition, "pre_query", mode, rival, MAIN_BUDGET, "causal_ahead"),
        )
        for pool, condition in asked
    ]
    causal, other, only_causal = (summed([share for share in column if share]) for column in zip(*found, strict=True))
    if causal is None or other is None or only_causal is None:
        return "-"
    gap = share_difference(causal, other, only_causal)
    low, high = bounds(gap)
    only_other = only_causal.value - gap.value
    told = sign_test(round(only_causal.value * gap.n), round(only_other * gap.n)) < LEVEL
    verdict = HOLDS if low > 0 and told else FAILS if high < 0 and told else OPEN
    return f"{gap.value:+.2f} [{low:+.2f} to {high:+.2f}]{papers_gap(asked, rival)} {verdict}"


def papers_gap(asked: list[tuple[Pool, str]], rival: str) -> str:
    if len(asked) > 1:
        return ""
    ((pool, condition),) = asked
    theirs = [pool.paper(condition, "pre_query", policy, MAIN_BUDGET) for policy in ("causal_r0", rival)]
    return f" ({float(theirs[0]) - float(theirs[1]):+.2f})" if theirs[0] and theirs[1] else ""


def summed(shares: list[Metric]) -> Metric | None:
    """One share of all examples."""
    if not shares:
        return None
    right = sum(round(share.value * share.n) for share in shares)
    return proportion(shares[0].name, right, sum(share.n for share in shares))

"""Is the causal router ahead of each policy a user could run instead?"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim, signed_interval, told
from keepset.paper.eviction.columns import (
    ALL_CONDITIONS,
    CAUSAL,
    CONTROL,
    IMITATION,
    KVZIP_TOKENS,
    MODES,
    PRE_QUERY,
    TWIN,
    Arm,
    percent,
)
from keepset.paper.eviction.paper_numbers import MAIN_BUDGET, PAPER
from keepset.paper.eviction.pool import Pool, pooled, titles
from keepset.paper.eviction.tables import paper_note
from keepset.paper.result import Metric
from keepset.paper.results import Results
from keepset.paper.statistics import bounds, clustered_difference, share_difference, sign_test
from keepset.paper.statistics import pooled as summed
from keepset.paper.table import Table

RIVALS = (
    Arm("h2o"),
    Arm("snapkv"),
    IMITATION,
    TWIN,
    *map(Arm, ("kvzip", "kvzip_max")),
    KVZIP_TOKENS,
    *map(Arm, ("expected_attention", "recency", "random")),
)
"""Before every other policy that is not among the paper's columns."""
CLAIMED = (IMITATION, Arm("h2o"), Arm("momentkv"), Arm("kvzip"), Arm("kvzip_max"), KVZIP_TOKENS)
"""What the paper puts the causal router ahead of before the question is known, and the strongest that it leaves out."""
ALL_TASKS = "all tasks"
WITHOUT_LOG = "all but the register log"
COMPARED = (0.1, 0.25)
"""Budgets."""
LOG = "register_log"
LEVEL = 0.05

Asked = list[tuple[Pool, str]]
"""Conditions of pools, taken together."""


@dataclass(frozen=True)
class Ahead:
    """The causal router (seed 0) against one policy on the same questions."""

    gap: Metric
    verdict: str


def compare(asked: Asked, mode: str, rival: Arm, budget: float = MAIN_BUDGET) -> Ahead | None:
    """None where one of them was not run. Several conditions together are clustered by document."""
    if len(asked) > 1 and all(not isinstance(pool.blocks, int) for pool, _ in asked):
        return clustered(asked, mode, rival, budget)
    shares = [
        (
            pool.share(condition, "pre_query", mode, CAUSAL, budget),
            pool.share(condition, "pre_query", mode, rival, budget),
            pool.only_causal(condition, mode, rival, budget),
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
    surely = sign_test(round(only_causal.value * gap.n), round(only_other * gap.n)) < LEVEL
    return Ahead(gap, told(HOLDS if low > 0 and surely else FAILS if high < 0 and surely else OPEN, gap.n))


def clustered(asked: Asked, mode: str, rival: Arm, budget: float) -> Ahead | None:
    """Differences of every question, by document; the sign test is over documents too."""
    documents: dict[str, list[int]] = defaultdict(list)
    for pool, condition in asked:
        found = pool.gaps(condition, mode, rival, budget)
        if found is None:
            return None
        for document, difference in found.items():
            documents[document].append(difference)
    if len(documents) < 2:
        return None
    gap = clustered_difference("preserved", list(documents.values()))
    low, high = bounds(gap)
    sums = list(map(sum, documents.values()))
    surely = sign_test(sum(each > 0 for each in sums), sum(each < 0 for each in sums)) < LEVEL
    verdict = HOLDS if low > 0 and surely else FAILS if high < 0 and surely else OPEN
    return Ahead(gap, told(verdict, len(documents)))


def eviction_orderings(results: Results) -> list[Table]:
    """By task, over tasks, over lengths."""
    pools = pooled(results)
    named = titles(pools, "pre_query")
    rivals = [*(arm for arm in RIVALS if arm in named), *(arm for arm in named if arm not in PRE_QUERY)]
    rows: list[tuple[str, ...]] = []
    for model, own in by_model(pools).items():
        for mode, budget in product(MODES, COMPARED):
            for pool in own:
                if not ran(pool, mode, budget):
                    continue
                rows.append(())
                head = (model, f"{pool.length:,}", mode, percent(budget))
                asked = [condition for condition in pool.conditions(ALL_CONDITIONS) if pool.solved(condition)]
                for condition in asked:
                    cells = ordering_cells([(pool, condition)], mode, rivals, budget)
                    rows.append((*head, ALL_CONDITIONS[condition], *cells))
                rows += together(head, answered([pool]), mode, rivals, budget)
            every = answered(independent([pool for pool in own if ran(pool, mode, budget)]))
            if len({pool.length for pool, _ in every}) > 1:
                rows += [(), *together((model, "all", mode, percent(budget)), every, mode, rivals, budget)]
    table = Table(
        name="eviction-orderings",
        caption=(
            "Causal router (seed 0) minus each other policy, pre-query: difference in the share still answered, and "
            "whether the causal router is ahead."
        ),
        columns=("Model", "Length", "Mode", "Budget", "Condition", "n", *(named[rival] for rival in rivals)),
        rows=tuple(rows[1:]),
        notes=(
            "Square brackets: 95 % interval of a difference of two shares of the same questions (Newcombe, paired). "
            f"Holds, or does not: the interval leaves zero out and the exact sign test has p < {LEVEL}, which takes at "
            "least six questions that tell the two apart, and at least 20 documents were asked; otherwise it cannot be "
            "told. -: not run. All tasks, lines: "
            "with the any-query control, interval (t) and sign test over documents. All tasks, models alone (first "
            "protocol, 32 tokens a block): without the control, whose documents are those of the register log, and "
            "not over lengths, whose documents share keys, numbers and depths.",
            *paper_note(pools, "differences of tab:pq8k to tab:pq-staleany"),
        ),
    )
    return [table] if table.rows else []


def ran(pool: Pool, mode: str, budget: float) -> bool:
    """Whether the causal router has any result there."""
    found = (pool.share(condition, "pre_query", mode, CAUSAL, budget) for condition in pool.conditions(ALL_CONDITIONS))
    return any(found)


def together(head: tuple[str, ...], asked: Asked, mode: str, rivals: list[Arm], budget: float) -> list[tuple[str, ...]]:
    """All conditions as one, with and without the register log, where there are several."""
    rows: list[tuple[str, ...]] = []
    others = [(pool, condition) for pool, condition in asked if not condition.startswith(LOG)]
    for title, some in ((ALL_TASKS, asked), (WITHOUT_LOG, others)):
        if len({condition for _, condition in some}) > 1:
            rows.append((*head, title, *ordering_cells(some, mode, rivals, budget)))
    return rows


def ordering_cells(asked: Asked, mode: str, rivals: list[Arm], budget: float) -> list[str]:
    """n, then per rival the difference, its interval, the paper's difference where it is one task, and the verdict."""
    cells = [str(sum(pool.solved(condition) for pool, condition in asked))]
    for rival in rivals:
        found = compare(asked, mode, rival, budget)
        if found is None:
            cells.append("-")
            continue
        low, high = bounds(found.gap)
        theirs = papers_gap(asked, rival, budget)
        cells.append(f"{found.gap.value:+.2f} [{low:+.2f} to {high:+.2f}]{theirs} {found.verdict}")
    return cells


def papers_gap(asked: Asked, rival: Arm, budget: float) -> str:
    if len(asked) > 1:
        return ""
    ((pool, condition),) = asked
    theirs = [pool.paper(condition, "pre_query", arm, budget) for arm in (CAUSAL, rival)]
    return f" ({float(theirs[0]) - float(theirs[1]):+.2f})" if theirs[0] and theirs[1] else ""


def eviction_claims(results: Results) -> list[Claim]:
    """Causal ahead of each policy the paper has, over all tasks and independent lengths; models and modes apart."""
    claims = []
    for model, own in by_model(pooled(results)).items():
        for mode in MODES:
            for rival in CLAIMED:
                asked = answered(independent([pool for pool in own if ran(pool, mode, MAIN_BUDGET)]))
                found = compare(asked, mode, rival) if asked else None
                if found:
                    claims.append(
                        Claim(
                            f"Pruned before the question to {percent(MAIN_BUDGET)}: causal ahead of {PRE_QUERY[rival]} "
                            f"({model}, {mode})",
                            papers_range(rival),
                            signed_interval(found.gap),
                            f"{found.gap.n} questions{of_length(asked)}",
                            found.verdict,
                        )
                    )
    return claims


def independent(pools: list[Pool]) -> list[Pool]:
    """Documents that share nothing. In the first protocol those of different lengths have the same keys, numbers and
    depths, so the length with the most answers stands for all."""
    first = [pool for pool in pools if isinstance(pool.blocks, int)]
    most = max(first, key=lambda pool: sum(pool.solved(task) for task in pool.conditions(pool.tasks)), default=None)
    return [pool for pool in pools if pool not in first or pool is most]


def of_length(asked: Asked) -> str:
    """Said where they are all of one."""
    lengths = {pool.length for pool, _ in asked}
    return f" of {lengths.pop():,} tokens" if len(lengths) == 1 else ""


def papers_range(rival: Arm) -> str:
    """The paper's smallest and largest difference."""
    theirs = [
        float(PAPER[times, condition, regime, CAUSAL, budget]) - float(value)
        for (times, condition, regime, arm, budget), value in PAPER.items()
        if (regime, arm, budget) == ("pre_query", rival, MAIN_BUDGET) and condition != CONTROL
    ]
    return f"{min(theirs):+.2f} to {max(theirs):+.2f} by task and length" if theirs else "not compared"


def by_model(pools: list[Pool]) -> dict[str, list[Pool]]:
    return {pool.subject: [other for other in pools if other.subject == pool.subject] for pool in pools}


def answered(pools: list[Pool]) -> Asked:
    """Every task of every length, where the model answers something."""
    return [(pool, task) for pool in pools for task in pool.conditions(pool.tasks) if pool.solved(task)]

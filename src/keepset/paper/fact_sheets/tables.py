"""Parts as one number, kvpress's KVzip beside keepset's policies, and who is ahead of whom.

Questions of one document stand or fall together: every interval is clustered by document, and a router's three starts
are counted as more questions of the same document.
"""

from keepset.paper.claim import Claim, above, interval, side_of_zero, signed_interval, told
from keepset.paper.fact_sheets.run import FACTS, GIVEN, MODEL, NAME, NEVER
from keepset.paper.result import At, Coordinate, Metric
from keepset.paper.results import Results
from keepset.paper.statistics import clustered_difference, clustered_share
from keepset.paper.table import Table, with_interval
from keepset.policies.oracle import Oracle

KVPRESS = "KVzip, per head and token (kvpress)"
CAUSAL = "causal router"
TENTH, QUARTER = 0.1, 0.25
BAR = 0.9
"""Of the answers the model gives from the whole document, what the causal router must keep in a tenth of the lines."""


class Pool:
    """The marks of one policy, mode and budget: a string of ``FACTS`` marks for every document and start."""

    def __init__(self, results: Results, **at: Coordinate) -> None:
        self.results, self.at = results, at
        found = results.select("preserved", **at)
        self.starts: dict[Coordinate, str] = {}
        for start, part in found.groupby("router_seed", sort=False) if len(found) else ():
            self.starts[start] = "".join(part.sort_values("part")["each"])

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def answered(self) -> list[str]:
        """Of the documents of which the model answers something."""
        return [marks for marks in self.documents if marks.count(NEVER) < len(marks)]

    @property
    def documents(self) -> list[str]:
        """Marks of each document, all starts in a row."""
        length = min(map(len, self.starts.values()))
        return [
            "".join(marks[first : first + FACTS] for marks in self.starts.values()) for first in range(0, length, FACTS)
        ]

    def share(self) -> Metric:
        sizes = [len(marks) - marks.count(NEVER) for marks in self.answered]
        return clustered_share("preserved", [marks.count(GIVEN) for marks in self.answered], sizes)

    def mean(self, what: str) -> float:
        return float(self.results.select(what, **self.at)["value"].mean())


def gaps(first: Pool, second: Pool) -> list[list[int]]:
    """First minus second, answer by answer, of each document with an answer; where one has fewer starts than the other,
    each of them meets each."""
    clusters = []
    for mine, theirs in zip(first.documents, second.documents, strict=False):
        each = [
            (a == GIVEN) - (b == GIVEN)
            for one in range(0, len(mine), FACTS)
            for other in range(0, len(theirs), FACTS)
            for a, b in zip(mine[one : one + FACTS], theirs[other : other + FACTS], strict=True)
            if NEVER not in (a, b)
        ]
        if each:
            clusters.append(each)
    return clusters


def ahead(first: Pool, second: Pool) -> Metric:
    return clustered_difference("preserved", gaps(first, second))


def pools(results: Results, budget: float) -> dict[str, Pool]:
    """Policy -> its marks in mode ``global``; kvpress's own KVzip last."""
    own, theirs = results.of(NAME), results.of("kvpress")
    found = {p: Pool(own, policy=p, mode="global", budget=budget) for p in own.coordinates("policy")}
    found[KVPRESS] = Pool(theirs, budget=budget)
    return {policy: pool for policy, pool in found.items() if pool}


def fact_sheet_table(results: Results) -> Table:
    """Policies down, budgets across; how far the causal router is ahead; costs."""
    own = results.of(NAME)
    budgets = own.coordinates("budget")
    by_budget = {budget: pools(results, budget) for budget in budgets}
    rows = []
    for policy in dict.fromkeys(policy for found in by_budget.values() for policy in found):
        cells = [with_interval(found[policy].share()) if policy in found else "-" for found in by_budget.values()]
        tenth = by_budget[TENTH]
        gap = "" if policy == CAUSAL else signed_interval(ahead(tenth[CAUSAL], tenth[policy]))
        own_policy = policy != KVPRESS
        facts = f"{tenth[policy].mean('facts_kept'):.2f}" if own_policy else "-"
        rows.append((policy, *cells, gap, facts, f"{tenth[policy].mean('prefills'):.2f}"))
    run, tenth = own.run(), by_budget[TENTH]
    answers = sum(len(marks) - marks.count(NEVER) for marks in tenth[Oracle.title].documents)
    return Table(
        name="fact-sheets",
        caption=(
            f"Documents of {run.config['tokens']:,} tokens with four facts among lines of noise, pruned line by line "
            "before any question: share of the answers that survive, of those the model gives from the whole document, "
            f"and what choosing took in dense prefills ({MODEL}, mode global). The routers are the quickstart's, from "
            "three starts each; these documents are not the quickstart's."
        ),
        columns=("Policy", *(f"{b:.0%} kept" for b in budgets), "causal ahead, 10 %", "facts kept, 10 %", "prefills"),
        rows=tuple(rows),
        notes=(
            f"{answers} answers about {len(tenth[Oracle.title].answered)} of {len(tenth[Oracle.title].documents)} "
            "documents. Intervals are 95 %, clustered by document. Routers learned from "
            f"{run.counts['training_documents']} other documents of a quarter of the length. -: not run, or not known.",
            "kvpress keeps a share of the keys of every head after a dense prefill, which is in its prefills; keepset "
            "a share of the lines, and its prefill shrinks with the budget: its prefills are what choosing took.",
        ),
    )


def mode_table(results: Results) -> Table:
    """The same lines read three ways."""
    own = results.of(NAME)
    budgets, rows = own.coordinates("budget"), []
    for policy in (CAUSAL, Oracle.title):
        for mode in own.coordinates("mode"):
            at: At = {"policy": policy, "mode": mode, "router_seed": 0}
            found = [Pool(own, budget=budget, **at) for budget in budgets]
            rows.append((policy, mode, *(with_interval(pool.share()) for pool in found)))
    return Table(
        name="fact-sheet-modes",
        caption=(
            "The same kept lines read three ways, on the documents of fact-sheets: global (dropped lines are read by "
            "nobody, positions kept), text (the kept text alone, renumbered, what another engine gets), post_prefill "
            "(everything is read, then keys and values are dropped). Share of the answers that survive; one router."
        ),
        columns=("Policy", "Mode", *(f"{budget:.0%} kept" for budget in budgets)),
        rows=tuple(rows),
        notes=("95 % intervals, clustered by document.",),
    )


def fact_sheet_claims(results: Results) -> list[Claim]:
    """The bar at a tenth of the lines, and every rival there and at a quarter."""
    claims = []
    for budget in (TENTH, QUARTER):
        found = pools(results, budget)
        if CAUSAL not in found:
            continue
        documents = len(found[CAUSAL].answered)
        if budget == TENTH:
            kept = found[CAUSAL].share()
            text = (
                f"Fact sheets, a tenth of the lines before any question ({MODEL}): causal router keeps at least {BAR}"
            )
            n = f"{documents} documents × {len(found[CAUSAL].starts)} routers"
            claims.append(Claim(text, "not in it", interval(kept), n, told(above(kept, BAR), documents)))
        for policy, rival in found.items():
            if policy in (CAUSAL, Oracle.title):
                continue
            gap, units = ahead(found[CAUSAL], rival), len(gaps(found[CAUSAL], rival))
            text = f"Fact sheets, {budget:.0%} of the lines before any question ({MODEL}): causal ahead of {policy}"
            verdict = told(side_of_zero(gap, ahead=True), units)
            claims.append(Claim(text, "not in it", signed_interval(gap), f"{units} documents", verdict))
    return claims

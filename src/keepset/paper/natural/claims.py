"""What the router that ships was built for; the bars are the project's own, the lexical scorers its rivals."""

from keepset.paper.claim import Claim, above, interval, told
from keepset.paper.natural.run import BM25, QASPER, ROUTER, SQUAD, WORDS
from keepset.paper.result import Metric
from keepset.paper.results import Results

AMONG_TWO = 0.93
"""BM25 keeps the sentence on 0.87 of all questions of SQuAD dev; the paper's routers on 0.59 and 0.41."""
RECALL = 0.55
"""The paper's router: 0.39."""

PAPER = {AMONG_TWO: "0.59", RECALL: "0.39"}


def natural_claims(results: Results) -> list[Claim]:
    """Where both the router and its rival have been measured."""
    found = []
    if _there(results, SQUAD, BM25):
        router, rival = (results.metric("among_best", documents=SQUAD, scorer=s, number=2) for s in (ROUTER, BM25))
        found.append(
            _claim(
                f"Gold sentence among two of sixteen, question known: at least {AMONG_TWO}", router, rival, AMONG_TWO
            )
        )
    if _there(results, QASPER, WORDS):
        router, rival = (
            results.metric("recall", documents=QASPER, scorer=s, regime="pre_query", budget=0.25)
            for s in (ROUTER, WORDS)
        )
        found.append(
            _claim(f"QASPER evidence kept in 25 % of the words, no question: at least {RECALL}", router, rival, RECALL)
        )
    return found


def _there(results: Results, documents: str, rival: str) -> bool:
    what = "among_best" if documents == SQUAD else "recall"
    return all(not results.select(what, documents=documents, scorer=scorer).empty for scorer in (ROUTER, rival))


def _claim(claim: str, router: Metric, rival: Metric, bar: float) -> Claim:
    here = f"{interval(router)}; {rival.at['scorer']} {interval(rival)}"
    return Claim(claim, PAPER[bar], here, f"{router.n:,}", told(above(router, bar), router.n))

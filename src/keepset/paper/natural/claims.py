"""What the router that ships was built for; the bars are the project's own, the lexical scorers its rivals."""

from dataclasses import replace

from keepset.paper.claim import NOT_TESTED, Claim, above, interval, told
from keepset.paper.natural.corpus import QASPER, SQUAD
from keepset.paper.natural.others import BOTH
from keepset.paper.natural.papers import SHARES
from keepset.paper.natural.run import BM25, ROUTER, WORDS
from keepset.paper.result import Metric
from keepset.paper.results import Results

AMONG_TWO = 0.93
"""BM25 keeps the sentence on 0.87 of all questions of SQuAD dev; the paper's routers on 0.59 and 0.41."""
RECALL = 0.55
"""The paper's router: 0.39."""


def natural_claims(results: Results) -> list[Claim]:
    """Where both the router and its rival have been measured."""
    found = []
    if _there(results, "among_best", SQUAD, BM25):
        router, rival = (results.metric("among_best", documents=SQUAD, scorer=s, number=2) for s in (ROUTER, BM25))
        said = f"Gold sentence among two of sixteen, question known: at least {AMONG_TWO}"
        found.append(_claim(said, "0.59", router, rival, AMONG_TWO, _documents(results, SQUAD, "articles")))
    if _there(results, "recall", QASPER, WORDS):
        router, rival = (
            results.metric("recall", documents=QASPER, scorer=s, regime="pre_query", budget=0.25)
            for s in (ROUTER, WORDS)
        )
        said = f"QASPER evidence kept in 25 % of the words, no question: at least {RECALL}"
        claim = _claim(said, "0.39", router, rival, RECALL, _documents(results, QASPER, "papers"))
        found.append(replace(claim, own_choice=tried(results), bar_is_ours=True))
    return found


def tried(results: Results) -> str:
    """What was run to tell whether a choice of ours keeps the recall low: by folds, or without choosing anything."""
    found = []
    if not results.select("recall", kind="papers", scorer=ROUTER).empty:
        papers = [results.run(kind="papers", share=share).at["training_papers"] for share in SHARES[1:]]
        recalls = [results.metric("recall", kind="papers", share=s, scorer=ROUTER, budget=0.25) for s in SHARES[1:]]
        said = ", ".join(f"{recall.value:.2f} from {n}" for recall, n in zip(recalls, papers, strict=True))
        found.append(f"papers to learn from, by folds: {said}")
    if not results.select("others").empty:
        known = results.metric("others", way=BOTH)
        found.append(f"what the paper's other questions needed kept first, then words: {interval(known)}")
    return "; ".join(found) or NOT_TESTED


def _there(results: Results, what: str, documents: str, rival: str) -> bool:
    return all(not results.select(what, documents=documents, scorer=scorer).empty for scorer in (ROUTER, rival))


def _documents(results: Results, documents: str, kind: str) -> tuple[int, str]:
    """The independent units, and what they are called."""
    return results.run(documents=documents, scorer=ROUTER).counts["documents"], kind


def _claim(claim: str, paper: str, router: Metric, rival: Metric, bar: float, units: tuple[int, str]) -> Claim:
    here = f"{interval(router)}; {rival.at['scorer']} {interval(rival)}"
    verdict = told(above(router, bar), units[0])
    return Claim(claim, paper, here, f"{router.n:,} of {units[0]} {units[1]}", verdict)

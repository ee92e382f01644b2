"""What the paper says of record routers, and what a reader will ask: do words alone do as well?"""

from keepset.paper.claim import Claim
from keepset.paper.pretrained.examples import TITLES, Task
from keepset.paper.pretrained.lessons import CAUSAL, IMITATION, NO_SINK, arm_name
from keepset.paper.pretrained.pool import models, paired_gap, pooled_share
from keepset.paper.pretrained.routers import WORDS
from keepset.paper.pretrained.settings import BUDGET, RECORDS
from keepset.paper.pretrained.written import ahead_claim, bar_claim
from keepset.paper.result import At, Metric
from keepset.paper.results import Results

RANDOM = "random"
SINK_KEPT = arm_name(CAUSAL, "kept")
UNITS = "examples × 1 router"
"""Every arm is one start: what another would change is in no interval."""
OF_DENSE = 0.95
"""What the causal router must keep of dense accuracy on unique retrieval."""
SOLVES = 0.9
"""Dense accuracy over which there is nothing to repair."""
REPAIRED = 0.9
"""Accuracy that counts as repaired."""
PAPER_GAPS = {
    (RECORDS, "kept"): "+0.54, +0.30 (3B, 7B)",
    (RECORDS, NO_SINK): "+0.17, +0.06 (3B, 7B)",
    (2 * RECORDS, "kept"): "+0.69, +0.73 (3B, 7B)",
    (2 * RECORDS, NO_SINK): "+0.26, +0.12 (3B, 7B)",
}
"""Records, sink -> causal minus imitation at two records, unique retrieval (``tab:sink``)."""
BESIDE_WORDS: tuple[tuple[Task, int], ...] = (("unique", 1), ("unique", BUDGET), ("conflicting", BUDGET))
"""Not one record of conflicting facts: two of them share as many words, so what breaks the tie would decide."""
SINKS = {"kept": "sink kept", NO_SINK: "sink removed"}


def routing_claims(results: Results) -> list[Claim]:
    """Model by model."""
    claims = []
    for model in models(results):
        for records in dict.fromkeys(records for records, _ in PAPER_GAPS):
            claims += of_dense(results, model, records)
        for (records, sink), paper in PAPER_GAPS.items():
            rival, causal = (arm_name(supervision, sink) for supervision in (IMITATION, CAUSAL))
            gap = causal_gap(results, model, "unique", records, BUDGET, rival, causal)
            if gap:
                where = f"{BUDGET} of {records} records, unique retrieval, {SINKS[sink]} ({model})"
                claims.append(ahead_claim(f"{where}: causal ahead of imitation", paper, gap, UNITS))
        for task, k in BESIDE_WORDS:
            gap = causal_gap(results, model, task, RECORDS, k, WORDS)
            if gap:
                text = f"{k} of {RECORDS} records, {TITLES[task]} ({model}): causal ahead of BM25"
                claims.append(ahead_claim(text, "not in it", gap, UNITS))
        claims += repair(results, model)
    return claims


def causal_gap(
    results: Results, model: str, task: Task, records: int, k: int, rival: str, causal: str = SINK_KEPT
) -> Metric | None:
    """What a causal router is ahead of another arm."""
    there = results.where(model=model, task=task, records=records)
    return paired_gap(there, "routed", {"arm": causal, "k": k}, {"arm": rival, "k": k})


def of_dense(results: Results, model: str, records: int) -> list[Claim]:
    """The causal router keeps what the model has on unique retrieval."""
    at: At = {"model": model, "task": "unique", "records": records}
    dense = pooled_share(results, "dense", **at)
    routed = pooled_share(results, "routed", arm=SINK_KEPT, k=BUDGET, **at)
    if dense is None or routed is None:
        return []
    text = (
        f"Causal router at {BUDGET} of {records} records, unique retrieval ({model}): at least {OF_DENSE} of dense "
        f"({dense.value:.2f})"
    )
    return [bar_claim(text, "0.99 to 1.00 of 1.00", routed, OF_DENSE * dense.value, "examples")]


def repair(results: Results, model: str) -> list[Claim]:
    """Models that do not solve conflicting facts do, from the two records of a causal router."""
    at: At = {"model": model, "task": "conflicting", "records": RECORDS}
    dense = pooled_share(results, "dense", **at)
    routed = pooled_share(results, "routed", arm=SINK_KEPT, k=BUDGET, **at)
    if dense is None or routed is None or dense.value > SOLVES:
        return []
    text = (
        f"Conflicting facts ({model}, {dense.value:.2f} with everything in sight): two records of the causal router "
        f"lift it to at least {REPAIRED}"
    )
    return [bar_claim(text, "0.98 of 0.56 (Gemma-2-9B)", routed, REPAIRED, "examples")]

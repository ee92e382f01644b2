"""Stage 4: which blocks an answer rests on: evidence sets, the paper's estimators, families, agreement."""

from keepset.labels.agreement import covered, covers, exact_match, jaccard
from keepset.labels.attention import adaptive_sets, attention_top_k
from keepset.labels.estimators import ESTIMATORS, FLOOR, floored, recover
from keepset.labels.evidence import (
    Case,
    Evidence,
    evidence_sets,
    find_evidence,
    greedy_sets,
    keep_sets,
    label_of,
    task_evidence,
    top_drops,
    top_k,
)

__all__ = [
    "ESTIMATORS",
    "FLOOR",
    "Case",
    "Evidence",
    "adaptive_sets",
    "attention_top_k",
    "covered",
    "covers",
    "evidence_sets",
    "exact_match",
    "find_evidence",
    "floored",
    "greedy_sets",
    "jaccard",
    "keep_sets",
    "label_of",
    "recover",
    "task_evidence",
    "top_drops",
    "top_k",
]

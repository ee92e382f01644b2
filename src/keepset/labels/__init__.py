"""Stage 4: which blocks an answer rests on: evidence sets, the paper's estimators, families, agreement."""

from keepset.interventions.effects import FLOOR
from keepset.labels.agreement import covered, covers, exact_match, jaccard
from keepset.labels.estimators import ESTIMATORS, alternatives, floored, recover
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
from keepset.labels.families import FoundFamily, all_sets, confirm, find_families

__all__ = [
    "ESTIMATORS",
    "FLOOR",
    "Case",
    "Evidence",
    "FoundFamily",
    "all_sets",
    "alternatives",
    "confirm",
    "covered",
    "covers",
    "evidence_sets",
    "exact_match",
    "find_evidence",
    "find_families",
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

"""How the runs of ``agreement`` are made: every teacher's labels of the same examples, compared pair by pair.

All labels of a teacher come from one pass of effects and one of attention, so they share a file.
"""

import time
from functools import partial
from itertools import combinations
from statistics import fmean

import torch
from torch import Tensor

from keepset import seeds
from keepset.labels import covered, evidence_sets, exact_match, jaccard, keep_sets, top_drops, top_k
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.statistics import share
from keepset.paper.teachers import RECORDS, SOFT_RECORDS, teacher_seeds
from keepset.readouts import adaptive_set

NAME = "agreement"
MIXTURES = {RECORDS: "sharp", SOFT_RECORDS: "soft"}
"""Teachers -> how their attention starts."""
CONDITIONS = {
    "unique": "Unique retrieval",
    "latest_write": "Latest write",
    "duplicate_m1": "Duplicate-1",
    "duplicate_m2": "Duplicate-2",
    "duplicate_m4": "Duplicate-4",
}
COPIES = {1: "duplicate_m1", 2: "duplicate_m2", 4: "duplicate_m4"}
EXAMPLES = {"smoke": 20, "small": 500, "paper": 500}
K = 3
"""Blocks of the labels of fixed size."""
LABELS = ("causal", "adaptive", "ablation", "attention_top_k")


def jobs(scale: str) -> Jobs:
    """One result per kind of teacher and condition."""
    return {
        f"{NAME}/{mixture}-{condition}": partial(compare, scale, mixture, condition)
        for mixture in MIXTURES
        for condition in CONDITIONS
    }


def compare(scale: str, mixture: str, condition: str) -> RunResult:
    """Labels of every teacher on one condition, and how well they agree."""
    started = time.monotonic()
    metrics: list[Metric] = []
    labels: dict[int, dict[str, Tensor]] = {}
    n_blocks = 0
    for teacher in teacher_seeds(scale, mixture):
        subject = Labelled.load(scale, mixture, teacher, condition, EXAMPLES[scale])
        n_blocks = subject.config.n_blocks
        labels[teacher] = all_labels(subject)
        metrics += against_annotations(subject, labels[teacher], teacher)
        if condition == "latest_write":
            metrics += stale_attention(subject, labels[teacher], teacher)
    for label in LABELS:
        metrics += between_teachers(label, {teacher: found[label] for teacher, found in labels.items()})
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "condition": condition},
        config={
            "condition": condition,
            "mixture": mixture,
            "k": K,
            "teachers": list(labels),
            "n_blocks": n_blocks,
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": EXAMPLES[scale], "teachers": len(labels)},
        metrics=metrics,
    )


def all_labels(subject: Labelled) -> dict[str, Tensor]:
    """Label -> (B, N) bool."""
    return {
        "causal": evidence_sets(subject.effects),
        "adaptive": adaptive_set(subject.attention),
        "ablation": top_drops(subject.effects, K),
        "attention_top_k": top_k(subject.attention, K),
    }


def against_annotations(subject: Labelled, labels: dict[str, Tensor], teacher: int) -> list[Metric]:
    """The evidence set against what is known, its size beside attention's, and how often hiding one block flips."""
    n = subject.n
    families = [example.family or frozenset() for example in subject.effects.probe.examples]
    causal = labels["causal"]
    solved = subject.effects.clean_correct
    first = subject.known.float().argmax(1, keepdim=True)  # an annotated block: all copies are alike
    flips = subject.effects.flip.gather(1, first).squeeze(1)
    sizes = {label: float(labels[label].sum(1).float().mean()) for label in ("causal", "adaptive")}
    return [
        share("match", int(exact_match(causal, subject.known).sum()), n, teacher=teacher, label="causal"),
        share("cover", sum(covered(keep_sets(causal), families)), n, teacher=teacher, label="causal"),
        share("single_flip", int(flips.sum()), max(1, int(solved.sum())), teacher=teacher),
        *(Metric(what="size", at={"teacher": teacher, "label": name}, value=s, n=n) for name, s in sizes.items()),
    ]


def stale_attention(subject: Labelled, labels: dict[str, Tensor], teacher: int) -> list[Metric]:
    """Share of examples whose label holds an obsolete write."""
    counts = {label: int((labels[label] & subject.obsolete).any(1).sum()) for label in ("adaptive", "causal")}
    top = int(torch.take_along_dim(subject.obsolete, subject.attention.argmax(1, keepdim=True), 1).sum())
    return [
        *(share("holds_obsolete", count, subject.n, teacher=teacher, label=label) for label, count in counts.items()),
        share("top_attended_is_obsolete", top, subject.n, teacher=teacher),
    ]


def between_teachers(label: str, sets: dict[int, Tensor]) -> list[Metric]:
    """Mean Jaccard over examples for each pair of teachers, then the mean over pairs."""
    metrics = []
    for teacher, other in combinations(sets, 2):
        overlap = jaccard(sets[teacher], sets[other])
        at: At = {"label": label, "teacher": teacher, "other_teacher": other}
        metrics.append(Metric(what="jaccard", at=at, value=float(overlap.mean()), n=len(overlap)))
    if metrics:
        mean = fmean(metric.value for metric in metrics)
        metrics.append(Metric(what="mean_jaccard", at={"label": label}, value=mean, n=len(metrics)))
    return metrics

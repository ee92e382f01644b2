"""Do teachers that learned the same task agree on what matters? (``tab:agreement``, ``fig:redundancy``, Section 3)

One result per condition: every teacher's labels of the same examples, compared pair by pair.
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
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_seeds
from keepset.readouts import adaptive_set

EXPERIMENT = "agreement"
MIXTURE = "single-hop"
CONDITIONS = ("unique", "latest_write", "duplicate_m1", "duplicate_m2", "duplicate_m4")
EXAMPLES = {"smoke": 20, "small": 500, "paper": 500}
K = 3
"""Blocks of the labels of fixed size."""
LABELS = ("causal", "adaptive", "ablation", "attention_top_k")


def jobs(scale: str) -> Jobs:
    """One result per condition."""
    return {f"agreement/{condition}": partial(compare, scale, condition) for condition in CONDITIONS}


def compare(scale: str, condition: str) -> RunResult:
    """Labels of every teacher on one condition, and how well they agree."""
    started = time.monotonic()
    metrics: list[Metric] = []
    labels: dict[int, dict[str, Tensor]] = {}
    for seed in teacher_seeds(scale, MIXTURE):
        subject = Labelled.load(scale, MIXTURE, seed, condition, EXAMPLES[scale])
        labels[seed] = all_labels(subject)
        metrics += against_annotations(subject, labels[seed], seed)
        if condition == "latest_write":
            metrics += stale_attention(subject, labels[seed], seed)
    for name in LABELS:
        pairs = {(a, b): float(jaccard(labels[a][name], labels[b][name]).mean()) for a, b in combinations(labels, 2)}
        metrics += [Metric(name=f"{name}_{a}_{b}", value=value, n=EXAMPLES[scale]) for (a, b), value in pairs.items()]
        if pairs:
            metrics.append(Metric(name=f"{name}_mean", value=fmean(pairs.values()), n=len(pairs)))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={"condition": condition, "mixture": MIXTURE, "k": K, "teachers": list(labels)},
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


def against_annotations(subject: Labelled, labels: dict[str, Tensor], seed: int) -> list[Metric]:
    """The evidence set against what is known, its size beside attention's, and how often hiding one block flips."""
    n = subject.n
    families = [example.family or frozenset() for example in subject.effects.probe.examples]
    causal = labels["causal"]
    solved = subject.effects.clean_correct
    first = subject.known.float().argmax(1, keepdim=True)  # an annotated block: all copies are alike
    flips = subject.effects.flip.gather(1, first).squeeze(1)
    return [
        proportion(f"match_{seed}", int(exact_match(causal, subject.known).sum()), n),
        proportion(f"cover_{seed}", sum(covered(keep_sets(causal), families)), n),
        proportion(f"single_flip_{seed}", int(flips.sum()), max(1, int(solved.sum()))),
        Metric(name=f"causal_size_{seed}", value=float(causal.sum(1).float().mean()), n=n),
        Metric(name=f"adaptive_size_{seed}", value=float(labels["adaptive"].sum(1).float().mean()), n=n),
    ]


def stale_attention(subject: Labelled, labels: dict[str, Tensor], seed: int) -> list[Metric]:
    """Share of examples whose label holds an obsolete write."""
    shares = {name: int((labels[name] & subject.obsolete).any(1).sum()) for name in ("adaptive", "causal")}
    top = int(torch.take_along_dim(subject.obsolete, subject.attention.argmax(1, keepdim=True), 1).sum())
    return [
        *(proportion(f"{name}_holds_obsolete_{seed}", count, subject.n) for name, count in shares.items()),
        proportion(f"top_attended_is_obsolete_{seed}", top, subject.n),
    ]

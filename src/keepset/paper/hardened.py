"""Hardened multi-hop (end of Section 5): chains in any order among distractor chains, so the teacher must follow them.

Chain routers learn from the first hardened teacher and route it, the second one, and the five-task teachers, which
never saw a shuffled chain; then three hops, which nobody saw. One result per label teacher: there is one.
"""

import time
from functools import partial

from keepset import seeds
from keepset.paper import chains
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.teacher import load_teacher

EXPERIMENT = "hardened"
MIXTURE = "hardened"
CONDITION = "multihop_hardened"
THREE_HOPS = "multihop_3hop"


def jobs(scale: str) -> Jobs:
    """One result: the labels of the first hardened teacher."""
    return {"hardened/labels-0": partial(route, scale, 0)}


def route(scale: str, source: int) -> RunResult:
    """Trains every arm on the hardened chains of one teacher; routes every teacher that may follow chains."""
    started = time.monotonic()
    routers = chains.train(scale, MIXTURE, source, CONDITION)
    metrics: list[Metric] = []
    teachers = [(mixture, seed) for mixture in (MIXTURE, "five-task") for seed in teacher_seeds(scale, mixture)]
    for mixture, seed in teachers:
        model, config = load_teacher(teacher_folder(scale, mixture, seed))
        for condition, k in ((CONDITION, chains.CHAIN), (THREE_HOPS, chains.CHAIN + 1)):
            batch = evaluation_batch(config, condition, chains.EXAMPLES[scale])
            measured = chains.routed_metrics(condition, model, batch, routers, k)
            metrics += [metric.model_copy(update={"name": f"{mixture}-{seed}_{metric.name}"}) for metric in measured]
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "source": source,
            "conditions": {CONDITION: chains.CHAIN, THREE_HOPS: chains.CHAIN + 1},
            "teachers": [f"{mixture}-{seed}" for mixture, seed in teachers],
            "router_seeds": chains.ROUTER_SEEDS[scale],
            "router": "chain",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(source)},
        counts={
            "examples": chains.EXAMPLES[scale],
            "table": chains.TABLE[scale],
            "steps": chains.STEPS[scale],
            "batch": chains.BATCH[scale],
        },
        metrics=metrics,
    )

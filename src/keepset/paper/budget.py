"""How many blocks an answer takes: the annotated blocks first, then the rest, at every budget (``fig:budget``).

Both groups in position order. The selection upper-bounds any router. One result per five-task teacher.
"""

import time
from functools import partial

from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import family_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.teacher import load_teacher

EXPERIMENT = "budget"
MIXTURE = "five-task"
CONDITIONS = ("unique", "multihop", "aggregation")
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"budget/{MIXTURE}-{seed}": partial(sweep, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def sweep(scale: str, seed: int) -> RunResult:
    """Routed accuracy of one teacher with 1 to N blocks."""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, MIXTURE, seed))
    metrics: list[Metric] = []
    for condition in CONDITIONS:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        probe = routed_probe(model, batch)
        scores = family_scores(batch.family)
        for k in range(1, len(batch.blocks) + 1):
            right = routed_correct(probe, top_blocks(scores, k))
            metrics.append(proportion(f"{condition}_k{k}", int(right.sum()), len(batch)))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={"mixture": MIXTURE, "seed": seed, "conditions": list(CONDITIONS), "n_blocks": config.n_blocks},
        seeds={"evaluation": evaluation_seed(CONDITIONS[0])},
        counts={"examples": EXAMPLES[scale]},
        metrics=metrics,
    )

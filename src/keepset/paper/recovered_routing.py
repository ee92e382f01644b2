"""Routers that never saw an annotation: the routed columns of ``tab:recovered``.

Every estimator labels the same examples of the recovery mixture with one teacher; chain routers learn from those
labels alone. One result per estimator, and one for annotated families beside them.
"""

import time
from functools import lru_cache, partial

from torch import Tensor

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.interventions import Effects, Fast
from keepset.labels import ESTIMATORS, FLOOR, alternatives, recover, top_k
from keepset.paper.chains import BATCH
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.recovery import BUDGET, CONDITIONS, MIXTURE
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import budget_blocks, chain_blocks, chain_recall, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import RouterTable, make_table
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.routers import build_router, score_blocks
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.readouts import input_saliency
from keepset.routers import Coverage, table_stream, train_routers
from keepset.routers.targets import acceptable_sets

EXPERIMENT = "recovered_routing"
TEACHER = 0
BUDGETS = {"unique": 0.1, "latest_write": 0.1}
"""Fractions of the blocks; multi-hop keeps a chain's three."""
TABLE = {"smoke": 128, "small": 4_000, "paper": 8_000}
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
ROUTER_SEEDS = {"smoke": 2, "small": 2, "paper": 3}
ARMS = (*ESTIMATORS, "saliency", "annotated")


def jobs(scale: str) -> Jobs:
    """One result per estimator."""
    return {f"recovered_routing/{arm}": partial(route, scale, arm) for arm in ARMS}


def route(scale: str, arm: str) -> RunResult:
    """Chain routers trained on one estimator's labels, routed on the three tasks of the mixture."""
    started = time.monotonic()
    table = recovered_table(scale)
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))
    trained = train_routers(
        lambda seed: build_router("chain", config.vocabulary, config.block_width, seed),
        range(ROUTER_SEEDS[scale]),
        {arm: Coverage()},
        table_stream(table.tokens, {arm: table.targets[arm]}, run=TEACHER, batch=BATCH[scale]),
        steps=STEPS[scale],
    )[arm]
    metrics: list[Metric] = []
    for condition in CONDITIONS:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        probe = routed_probe(model, batch)
        k = budget_blocks(BUDGETS[condition], len(batch.blocks)) if condition in BUDGETS else BUDGET
        for seed, router in enumerate(trained):
            kept = top_blocks(score_blocks(router, batch), k)
            right = int(routed_correct(probe, kept).sum())
            metrics.append(proportion(f"{condition}_r{seed}", right, len(batch)))
            if condition == "multihop":
                whole = int(chain_recall(kept, chain_blocks(batch)).all(1).sum())
                metrics.append(proportion(f"{condition}_chain_r{seed}", whole, len(batch)))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "seed": TEACHER,
            "estimator": arm,
            "conditions": list(CONDITIONS),
            "budget": BUDGET,
            "floor": FLOOR,
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "chain",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(TEACHER)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": BATCH[scale]},
        metrics=metrics,
    )


@lru_cache(maxsize=1)
def recovered_table(scale: str) -> RouterTable:
    """The labels of every estimator from one pass of effects, shared by the jobs of a run."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))

    def label(batch: ExampleBatch) -> dict[str, Tensor]:
        effects = Effects(batch, Fast(model))
        labels = {name: recover(name, effects, BUDGET) for name in ESTIMATORS}
        salience = input_saliency(model, batch.first_query(), batch.blocks, batch.answers[:, :1])
        sets = {name: acceptable_sets(label, alternatives(label, effects)) for name, label in labels.items()}
        return sets | {"saliency": acceptable_sets(top_k(salience, BUDGET)), "annotated": batch.family}

    return make_table(config, dict.fromkeys(CONDITIONS, 1.0), TABLE[scale], label)

"""Routers on single-record tasks: one source of labels, every teacher routed.

Gives ``tab:routing`` and ``tab:app-routing`` (labels of teacher 0), ``tab:app-own-teacher`` (each teacher's own) and
``tab:app-transfer`` (every source on every destination). One result per source teacher.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch

from keepset import seeds
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import budget_blocks, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import Label, annotated_family, block_attention, label_table
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.routers import Router, build_router, score_blocks
from keepset.paper.testbed.teachers.presets import MIXTURES
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.routers import KL, Coverage, Loss, table_stream, train_routers
from keepset.routers.training import LEARNING_RATE

EXPERIMENT = "routing"
MIXTURE = "single-hop"
CONDITIONS = (
    "unique",
    "latest_write",
    "duplicate",
    "latest_write_stale4",
    "unique_family",
    "unique_2x",
    "latest_write_2x",
    "unique_4x",
    "latest_write_4x",
)
BUDGET = 0.1
EXAMPLES = {"smoke": 6, "small": 300, "paper": 500}
TABLE = {"smoke": 128, "small": 25_600, "paper": 256_000}
"""Labelled training examples; the small scale reads its table ten times."""
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
ROUTER_SEEDS = {"smoke": 2, "small": 5, "paper": 5}
ARMS: dict[str, tuple[Loss, Label]] = {"imitation": (KL(), block_attention), "causal": (Coverage(), annotated_family)}


def jobs(scale: str) -> Jobs:
    """One result per source of labels."""
    return {f"routing/source-{source}": partial(route, scale, source) for source in teacher_seeds(scale, MIXTURE)}


def route(scale: str, source: int) -> RunResult:
    """Trains both arms on the labels of teacher ``source``; routes every teacher on every condition."""
    started = time.monotonic()
    routers = train(scale, source, ROUTER_SEEDS[scale], STEPS[scale])
    metrics: list[Metric] = []
    for destination in teacher_seeds(scale, MIXTURE):
        metrics += routed_metrics(scale, MIXTURE, destination, CONDITIONS, routers)
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "source": source,
            "budget": BUDGET,
            "conditions": list(CONDITIONS),
            "teachers": list(teacher_seeds(scale, MIXTURE)),
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "pooling",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(0)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale]},
        metrics=metrics,
    )


def train(
    scale: str, source: int, router_seeds: int, steps: int, learning_rate: float = LEARNING_RATE
) -> dict[str, list[Router]]:
    """Arm -> one pooling router per seed, on the labels of one teacher."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, source))
    labels = {arm: label for arm, (_, label) in ARMS.items()}
    with torch.no_grad():
        table = label_table(model, config, MIXTURES[MIXTURE], TABLE[scale], labels)
    return train_routers(
        lambda seed: build_router("pooling", config.vocabulary, config.block_width, seed),
        range(router_seeds),
        {arm: loss for arm, (loss, _) in ARMS.items()},
        table_stream(table.tokens, table.targets, run=source),
        steps=steps,
        learning_rate=learning_rate,
    )


def routed_metrics(
    scale: str,
    mixture: str,
    destination: int,
    conditions: Sequence[str],
    routers: Mapping[str, Sequence[Router]],
    fewest: int = 1,
) -> Iterator[Metric]:
    """One teacher on every condition: dense, random gates, and every router of every arm.

    The budget is a tenth of the blocks, but never under ``fewest``.
    """
    model, config = load_teacher(teacher_folder(scale, mixture, destination))
    for condition in conditions:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        k = max(fewest, budget_blocks(BUDGET, len(batch.blocks)))
        probe = routed_probe(model, batch)
        name = f"{condition}_t{destination}"
        chance = top_blocks(random_scores(len(batch), len(batch.blocks), evaluation_seed(condition)), k)
        yield proportion(f"dense_{name}", int(accuracy(model, batch).sum()), len(batch))
        yield proportion(f"random_{name}", int(routed_correct(probe, chance).sum()), len(batch))
        for arm, trained in routers.items():
            for seed, router in enumerate(trained):
                kept = top_blocks(score_blocks(router, batch), k)
                yield proportion(f"{arm}_{name}_r{seed}", int(routed_correct(probe, kept).sum()), len(batch))

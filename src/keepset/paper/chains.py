"""Chain routers on multi-hop: attention, backward trace and annotated chains as targets, on each teacher's own labels.

Gives ``tab:chain-per-teacher``, the router rows of ``tab:chain`` and the chains column of ``tab:trace-supervision``.
One result per five-task teacher.
"""

import time
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.labels import top_k
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import chain_blocks, chain_recall, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import Label, annotated_family, block_attention, label_table
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.routers import Router, build_router, score_blocks
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.readouts import backward_trace
from keepset.routers import KL, Coverage, Loss, table_stream, train_routers
from keepset.routers.targets import acceptable_sets

EXPERIMENT = "chains"
MIXTURE = "five-task"
CONDITION = "multihop"
CHAIN = 3
"""Records of a two-hop chain, and the budget."""
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
TABLE = {"smoke": 128, "small": 12_800, "paper": 256_000}
"""Labelled training examples; the small scale reads its table ten times."""
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
BATCH = {"smoke": 16, "small": 32, "paper": 64}
"""The paper's, and what it uses where a machine is shared."""
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}


def jobs(scale: str) -> Jobs:
    """One result per five-task teacher."""
    return {f"chains/{MIXTURE}-{seed}": partial(route, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def route(scale: str, seed: int) -> RunResult:
    """Trains every arm on the labels of one teacher and routes that teacher."""
    started = time.monotonic()
    routers = train(scale, MIXTURE, seed, CONDITION)
    model, config = load_teacher(teacher_folder(scale, MIXTURE, seed))
    batch = evaluation_batch(config, CONDITION, EXAMPLES[scale])
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "seed": seed,
            "condition": CONDITION,
            "budget": CHAIN,
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "chain",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(seed)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": BATCH[scale]},
        metrics=routed_metrics(CONDITION, model, batch, routers, CHAIN),
    )


def traced(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, 1, N) bool: the three blocks with the strongest path to the answer, as the one acceptable set."""
    return acceptable_sets(top_k(backward_trace(model, batch.first_query(), batch.blocks), CHAIN))


ARMS: dict[str, tuple[Loss, Label]] = {
    "attention": (KL(), block_attention),
    "trace": (Coverage(), traced),
    "causal": (Coverage(), annotated_family),
}


def train(scale: str, mixture: str, seed: int, condition: str) -> dict[str, list[Router]]:
    """Arm -> one chain router per seed, on one teacher's labels of ``condition``."""
    model, config = load_teacher(teacher_folder(scale, mixture, seed))
    with torch.no_grad():
        table = label_table(
            model, config, {condition: 1.0}, TABLE[scale], {arm: label for arm, (_, label) in ARMS.items()}
        )
    return train_routers(
        lambda router_seed: build_router("chain", config.vocabulary, config.block_width, router_seed),
        range(ROUTER_SEEDS[scale]),
        {arm: loss for arm, (loss, _) in ARMS.items()},
        table_stream(table.tokens, table.targets, run=seed, batch=BATCH[scale]),
        steps=STEPS[scale],
    )


def routed_metrics(
    name: str, model: PreTrainedModel, batch: ExampleBatch, routers: Mapping[str, list[Router]], k: int
) -> list[Metric]:
    """Dense, random, and every router: routed accuracy, and which elements of the chain it keeps."""
    n = len(batch)
    probe, chain = routed_probe(model, batch), chain_blocks(batch)
    chance = top_blocks(random_scores(n, len(batch.blocks), evaluation_seed(name)), k)
    metrics = [
        proportion(f"dense_{name}", int(accuracy(model, batch).sum()), n),
        proportion(f"random_{name}", int(routed_correct(probe, chance).sum()), n),
    ]
    for arm, trained in routers.items():
        for seed, router in enumerate(trained):
            kept = top_blocks(score_blocks(router, batch), k)
            recall = chain_recall(kept, chain)
            metrics.append(proportion(f"{arm}_{name}_r{seed}", int(routed_correct(probe, kept).sum()), n))
            metrics.append(proportion(f"{arm}_{name}_chain_r{seed}", int(recall.all(1).sum()), n))
            for place in range(chain.shape[1]):
                kept_here = int(recall[:, place].sum())
                metrics.append(proportion(f"{arm}_{name}_record{place}_r{seed}", kept_here, n))
    return metrics

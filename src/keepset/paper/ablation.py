"""Is it the label or the loss? Attention and causal labels, each under several losses, on pooling routers.

Gives ``tab:ablation`` and ``tab:app-ablation``: labels of five-task teacher 0, every five-task teacher routed. One
result.

The budget is a tenth of the blocks and at least three. The paper's 32 blocks give four; the 16 of the small scale
would give two, and two blocks cannot hold a chain of three, whatever the router has learned.
"""

import time
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.paper.chains import CHAIN
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import budget_blocks, top_blocks
from keepset.paper.router_tables import Label, annotated_family, block_attention, label_table
from keepset.paper.routing import BUDGET, EXAMPLES, STEPS, TABLE, routed_metrics
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.routers import Router, build_router
from keepset.paper.testbed.teachers.presets import MIXTURES
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.readouts import all_position_attention
from keepset.routers import KL, Coverage, Loss, SparseKL, table_stream, train_routers
from keepset.routers.targets import acceptable_sets, as_distribution, uniform_over_sets

EXPERIMENT = "ablation"
MIXTURE = "five-task"
SOURCE = 0
CONDITIONS = ("multihop", "unique_4x", "latest_write_4x")
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}


def jobs(scale: str) -> Jobs:
    """One result: the labels of the first teacher."""
    return {f"ablation/labels-{SOURCE}": partial(ablate, scale)}


def ablate(scale: str) -> RunResult:
    """Every label under its losses; every five-task teacher routed on every condition."""
    started = time.monotonic()
    routers = train(scale)
    teachers = teacher_seeds(scale, MIXTURE)
    metrics: list[Metric] = []
    for destination in teachers:
        metrics += routed_metrics(scale, MIXTURE, destination, CONDITIONS, routers, fewest=CHAIN)
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "source": SOURCE,
            "budget": BUDGET,
            "fewest_blocks": CHAIN,
            "conditions": list(CONDITIONS),
            "teachers": list(teachers),
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "pooling",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(SOURCE)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale]},
        metrics=metrics,
    )


def train(scale: str) -> dict[str, list[Router]]:
    """Arm -> one pooling router per seed; all arms see the same examples."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, SOURCE))
    with torch.no_grad():
        table = label_table(model, config, MIXTURES[MIXTURE], TABLE[scale], LABELS)
    supervised = arms(table.targets, max(CHAIN, budget_blocks(BUDGET, config.n_blocks)))
    return train_routers(
        lambda seed: build_router("pooling", config.vocabulary, config.block_width, seed),
        range(ROUTER_SEEDS[scale]),
        {arm: loss for arm, (loss, _) in supervised.items()},
        table_stream(table.tokens, {arm: target for arm, (_, target) in supervised.items()}, run=SOURCE),
        steps=STEPS[scale],
    )


def all_positions(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, N) attention over blocks from every position and layer."""
    return as_distribution(all_position_attention(model, batch.first_query(), batch.blocks))


LABELS: dict[str, Label] = {
    "attention": block_attention,
    "all_positions": all_positions,
    "causal": annotated_family,
}


def arms(labels: Mapping[str, Tensor], k: int) -> dict[str, tuple[Loss, Tensor]]:
    """Arm -> loss and target, for a budget of ``k`` blocks at the training length.

    Attention under Coverage has one acceptable set, the k most attended blocks. Causal evidence under KL spreads
    evenly over the annotated sets and inside each; the sets of one example are disjoint and of one size in every
    task, so it is also even over their union.
    """
    attention, family = labels["attention"], labels["causal"]
    return {
        "attention_kl": (KL(), attention),
        "attention_sparse_kl": (SparseKL(k), attention),
        "attention_coverage": (Coverage(), acceptable_sets(top_blocks(attention, k))),
        "all_positions_kl": (KL(), labels["all_positions"]),
        "causal_coverage": (Coverage(), family),
        "causal_kl": (KL(), uniform_over_sets(family)),
    }

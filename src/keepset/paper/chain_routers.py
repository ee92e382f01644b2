"""Chain routers: how every experiment on chains trains them, and what it measures of them.

Arms learn from the same examples in the same order, and each comes out as if it had been trained by itself
(``train_routers``), so an arm is run alone.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.labels import top_k
from keepset.paper.dense import evaluation_seed
from keepset.paper.experiment import run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.routed import chain_blocks, chain_recall, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import Label, annotated_family, block_attention, label_table
from keepset.paper.router_training import fit_arm, training_seeds
from keepset.paper.statistics import share
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.routers import ChainRouter, Router, score_blocks
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.readouts import backward_trace
from keepset.routers import KL, Coverage, Loss, table_stream
from keepset.routers.targets import acceptable_sets

CHAIN = 3
"""Records of a two-hop chain, and the budget."""
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
TABLE = {"smoke": 128, "small": 12_800, "paper": 256_000}
"""Labelled training examples; the small scale reads its table ten times."""
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
BATCH = {"smoke": 16, "small": 32, "paper": 64}
"""The paper's, and what it uses where a machine is shared."""
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}


def traced(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, 1, N) bool: the three blocks with the strongest paths to the answer, as the one acceptable set."""
    return acceptable_sets(top_k(backward_trace(model, batch.first_query(), batch.blocks), CHAIN))


ARMS: dict[str, tuple[Loss, Label]] = {
    "attention": (KL(), block_attention),
    "trace": (Coverage(), traced),
    "causal": (Coverage(), annotated_family),
}


@lru_cache(maxsize=1)
def train(
    scale: str,
    mixture: str,
    teacher: int,
    condition: str,
    arm: str,
    kind: str = ChainRouter.kind,
    router_seeds: int | None = None,
) -> list[Router]:
    """One router of ``kind`` per seed, on one teacher's labels of ``condition``; asked for again at once, the same."""
    model, config = load_teacher(teacher_folder(scale, mixture, teacher))
    loss, label = ARMS[arm]
    with torch.no_grad():
        table = label_table(model, config, {condition: 1.0}, TABLE[scale], {arm: label})
    stream = table_stream(table.tokens, table.targets, run=teacher, batch=BATCH[scale])
    return fit_arm(kind, config, arm, loss, stream, router_seeds or ROUTER_SEEDS[scale], STEPS[scale])


def routed_run(
    experiment: str,
    scale: str,
    started: float,
    *,
    at: At,
    config: dict[str, Any],
    teacher: int,
    metrics: Iterable[Metric],
    kind: str = ChainRouter.kind,
    router_seeds: int | None = None,
) -> RunResult:
    """The result of a run whose routers ``train`` made on the labels of ``teacher``."""
    return run_result(
        experiment,
        scale,
        started,
        at=at,
        config=config | {"router_seeds": router_seeds or ROUTER_SEEDS[scale], "router": kind},
        seeds=training_seeds(teacher),
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": BATCH[scale]},
        metrics=metrics,
    )


def unrouted_metrics(condition: str, model: PreTrainedModel, batch: ExampleBatch, k: int) -> list[Metric]:
    n = len(batch)
    chance = top_blocks(random_scores(n, len(batch.blocks), evaluation_seed(condition)), k)
    right = int(routed_correct(routed_probe(model, batch), chance).sum())
    return [
        share("routed", int(accuracy(model, batch).sum()), n, condition=condition, arm="dense"),
        share("routed", right, n, condition=condition, k=k, arm="random"),
    ]


def routed_metrics(
    condition: str, model: PreTrainedModel, batch: ExampleBatch, routers: Sequence[Router], k: int
) -> list[Metric]:
    """Every router: routed accuracy, and which records of the chain it keeps."""
    n = len(batch)
    probe, chain = routed_probe(model, batch), chain_blocks(batch)
    metrics: list[Metric] = []
    for seed, router in enumerate(routers):
        here = partial(share, n=n, condition=condition, k=k, router_seed=seed)
        kept = top_blocks(score_blocks(router, batch), k)
        recall = chain_recall(kept, chain)
        metrics.append(here("routed", int(routed_correct(probe, kept).sum())))
        metrics.append(here("chain_recall", int(recall.all(1).sum())))
        metrics += [here("recall", int(recall[:, i].sum()), record=i) for i in range(chain.shape[1])]
    return metrics


def training_note(run: RunResult) -> str:
    """What the routers of a run learned from, for the note of a table."""
    counts = run.counts
    return (
        f"{counts['examples']} examples, {run.config['router_seeds']} router seeds, {counts['table']:,} labelled "
        f"examples, {counts['steps']:,} steps of {counts['batch']}; {run.scale} scale"
    )

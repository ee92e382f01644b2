"""Beyond the paper: routers for two disjoint chains to one answer, trained on families that were found, not annotated.

Every label of the paper misses such chains (``tab:redundant``). Chain routers learn from each label of the same
examples and are scored three ways, because the mask alone can be answered by copying the only value left:

    routed     the rest is hidden by the paper's mask
    nonce      the rest is overwritten by nonce records, so the kept end record competes with other values
    chain      a whole chain is kept

One result per label.
"""

import time
from functools import lru_cache, partial

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.interventions import Confident, Effects, Fast, Probe
from keepset.labels import (
    FoundFamily,
    alternatives,
    confirm,
    covered,
    evidence_sets,
    find_families,
    floored,
    greedy_sets,
    keep_sets,
)
from keepset.paper.chains import BATCH
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN
from keepset.paper.redundant import ALTERNATIVES, BUDGET, CONDITION, CONFIRMING, nonces
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import RouterTable, block_attention, make_table
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.routers import build_router, renamed_stream, score_blocks
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.routers import KL, Coverage, Loss, table_stream, train_routers
from keepset.routers.targets import acceptable_sets

EXPERIMENT = "family_routing"
MIXTURE = "five-task"
TEACHER = 0
TABLE = {"smoke": 64, "small": 1_024, "paper": 8_000}
"""Labelled training examples: a family costs about a hundred probes, so few are read often, under new names."""
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
ROUTER_SEEDS = {"smoke": 2, "small": 2, "paper": 3}
ARMS: dict[str, Loss] = {
    "families": Coverage(),
    "floored": Coverage(),
    "evidence": Coverage(),
    "greedy": Coverage(),
    "attention": KL(),
    "annotated": Coverage(),
}


def jobs(scale: str) -> Jobs:
    """One result per label."""
    return {f"family_routing/{arm}": partial(route, scale, arm) for arm in ARMS}


def route(scale: str, arm: str) -> RunResult:
    """Chain routers trained on one label of two-chain contexts."""
    started = time.monotonic()
    table = labelled_table(scale)
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))
    stream = table_stream(table.tokens, {arm: table.targets[arm]}, run=TEACHER, batch=BATCH[scale])
    trained = train_routers(
        lambda seed: build_router("chain", config.vocabulary, config.block_width, seed),
        range(ROUTER_SEEDS[scale]),
        {arm: ARMS[arm]},
        renamed_stream(stream, config.vocabulary, run=TEACHER),
        steps=STEPS[scale],
    )[arm]
    batch = evaluation_batch(config, CONDITION, EXAMPLES[scale])
    masked = routed_probe(model, batch)
    overwritten = Probe(batch, Fast(model, nonces(config, 2, ALTERNATIVES)), Confident())
    families = [example.family or frozenset() for example in masked.examples]
    selections = {f"r{seed}": score_blocks(router, batch) for seed, router in enumerate(trained)}
    selections["random"] = random_scores(len(batch), len(batch.blocks), evaluation_seed(CONDITION))
    metrics: list[Metric] = []
    for name, scores in selections.items():
        kept = top_blocks(scores, BUDGET)
        metrics += [
            proportion(f"routed_{name}", int(routed_correct(masked, kept).sum()), len(batch)),
            proportion(f"nonce_{name}", int(routed_correct(overwritten, kept).sum()), len(batch)),
            proportion(f"chain_{name}", sum(covered(keep_sets(kept), families)), len(batch)),
        ]
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "seed": TEACHER,
            "label": arm,
            "condition": CONDITION,
            "budget": BUDGET,
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "chain",
        },
        seeds={
            "router_init": seeds.ROUTER_INIT.seed(0),
            "router_stream": seeds.ROUTER_STREAM.seed(TEACHER),
            "intervention": seeds.INTERVENTION.seed(RUN),
        },
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": BATCH[scale]},
        metrics=metrics,
    )


@lru_cache(maxsize=1)
def labelled_table(scale: str) -> RouterTable:
    """Every label of the same examples, shared by the jobs of a run. Only ``annotated`` reads the annotation."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))

    def label(batch: ExampleBatch) -> dict[str, Tensor]:
        effects = Effects(batch, Fast(model))
        searching, confirming = (
            Probe(batch, Fast(model, nonces(config, draw, count)), Confident())
            for draw, count in ((0, ALTERNATIVES), (1, CONFIRMING))
        )
        papers = {
            "floored": floored(effects, BUDGET),
            "evidence": evidence_sets(effects),
            "greedy": greedy_sets(effects),
        }
        return {
            "families": family_target(confirm(find_families(searching), confirming), len(batch.blocks)),
            "attention": block_attention(model, batch),
            "annotated": batch.family,
        } | {name: acceptable_sets(label, alternatives(label, effects)) for name, label in papers.items()}

    return make_table(config, {CONDITION: 1.0}, TABLE[scale], label)


def family_target(found: list[FoundFamily], n_blocks: int) -> Tensor:
    """(B, S, N) bool: the smallest sets of each family, rows of zeros where there are fewer."""
    target = torch.zeros(len(found), max(1, max(len(family.smallest) for family in found)), n_blocks, dtype=torch.bool)
    for i, family in enumerate(found):
        for row, keep in enumerate(sorted(family.smallest, key=sorted)):
            target[i, row, sorted(keep)] = True
    return target

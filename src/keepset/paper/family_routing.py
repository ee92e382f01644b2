"""Beyond the paper: routers for two disjoint chains to one answer, trained on families that were found, not annotated.

Every label of the paper misses such chains (``tab:redundant``). Chain routers learn from each label of the same
examples and are scored three ways, because the mask alone can be answered by copying the only value left:

    routed, operator mask     the rest is hidden by the paper's mask
    routed, operator nonce    the rest is overwritten by nonce records: the kept end record competes with other values
    chain_recall              a whole chain is kept

One result per label, and one for random gates. The paper's labels share one pass of effects where several run in one
process.
"""

import time
from functools import lru_cache, partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

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
from keepset.paper.chain_routers import BATCH, training_note
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN
from keepset.paper.redundant import ALTERNATIVES, BUDGET, CONDITION, CONFIRMING, nonces
from keepset.paper.result import Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import Label, RouterTable, annotated_family, block_attention, label_table, make_table
from keepset.paper.router_training import fit_arm, training_seeds
from keepset.paper.statistics import share
from keepset.paper.table import Table, bracket
from keepset.paper.teachers import SMALLER_FIVE_TASK, teacher_folder
from keepset.paper.testbed.routers import renamed_stream, score_blocks
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.routers import KL, Coverage, Loss, table_stream
from keepset.routers.targets import acceptable_sets

NAME = "family_routing"
MIXTURE = SMALLER_FIVE_TASK
"""Not of the paper's sizes: the families of a training table are an hour of a core there."""
TEACHER = 0
TABLE = {"smoke": 64, "small": 1_024, "paper": 8_000}
"""Labelled training examples: a family costs about a hundred probes, so few are read often, under new names."""
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}
ARMS: dict[str, Loss] = {
    "families": Coverage(),
    "floored": Coverage(),
    "evidence": Coverage(),
    "greedy": Coverage(),
    "attention": KL(),
    "annotated": Coverage(),
}


PAPERS = ("floored", "evidence", "greedy")
"""The labels that are read from effects."""


def jobs(scale: str) -> Jobs:
    """One result per label, then random gates."""
    found: Jobs = {f"{NAME}/{arm}": partial(route, scale, arm) for arm in ARMS}
    return found | {f"{NAME}/random": partial(chance, scale)}


def chance(scale: str) -> RunResult:
    """Random gates."""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))
    batch = evaluation_batch(config, CONDITION, EXAMPLES[scale])
    seed = evaluation_seed(CONDITION)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": TEACHER, "condition": CONDITION, "label": "random"},
        config={
            "mixture": MIXTURE,
            "seed": TEACHER,
            "condition": CONDITION,
            "budget": BUDGET,
            "n_blocks": config.n_blocks,
        },
        seeds={"evaluation": seed},
        counts={"examples": EXAMPLES[scale]},
        metrics=Scored(model, config, batch).metrics(random_scores(len(batch), len(batch.blocks), seed)),
    )


def route(scale: str, arm: str) -> RunResult:
    """Chain routers trained on one label of two-chain contexts."""
    started = time.monotonic()
    table = labelled_table(scale, arm)
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))
    stream = table_stream(table.tokens, {arm: table.targets[arm]}, run=TEACHER, batch=BATCH[scale])
    renamed = renamed_stream(stream, config.vocabulary, run=TEACHER)
    trained = fit_arm("chain", config, arm, ARMS[arm], renamed, ROUTER_SEEDS[scale], STEPS[scale])
    batch = evaluation_batch(config, CONDITION, EXAMPLES[scale])
    scored = Scored(model, config, batch)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": TEACHER, "condition": CONDITION, "label": arm},
        config={
            "mixture": MIXTURE,
            "seed": TEACHER,
            "label": arm,
            "condition": CONDITION,
            "budget": BUDGET,
            "n_blocks": config.n_blocks,
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "chain",
        },
        seeds=training_seeds(TEACHER) | {"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": BATCH[scale]},
        metrics=[
            metric
            for seed, router in enumerate(trained)
            for metric in scored.metrics(score_blocks(router, batch), router_seed=seed)
        ],
    )


class Scored:
    """What selections of the same contexts are worth; those that agree on an example share its forwards."""

    def __init__(self, model: PreTrainedModel, config: TeacherConfig, batch: ExampleBatch) -> None:
        self.masked = routed_probe(model, batch)
        self.overwritten = Probe(batch, Fast(model, nonces(config, 2, ALTERNATIVES)), Confident())
        self.families = [example.family or frozenset() for example in self.masked.examples]

    def metrics(self, scores: Tensor, **at: Coordinate) -> list[Metric]:
        """``scores`` (B, N): the best blocks are kept."""
        kept = top_blocks(scores, BUDGET)
        n = len(kept)
        return [
            share("routed", int(routed_correct(self.masked, kept).sum()), n, operator="mask", **at),
            share("routed", int(routed_correct(self.overwritten, kept).sum()), n, operator="nonce", **at),
            share("chain_recall", sum(covered(keep_sets(kept), self.families)), n, **at),
        ]


def labelled_table(scale: str, arm: str) -> RouterTable:
    """The examples with the label of one arm, perhaps others beside it. Only ``annotated`` reads the annotation."""
    if arm in PAPERS:
        return papers_table(scale)
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))

    def families(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
        searching, confirming = (
            Probe(batch, Fast(model, nonces(config, draw, count)), Confident())
            for draw, count in ((0, ALTERNATIVES), (1, CONFIRMING))
        )
        return family_target(confirm(find_families(searching), confirming), len(batch.blocks))

    own: dict[str, Label] = {"families": families, "attention": block_attention, "annotated": annotated_family}
    return label_table(model, config, {CONDITION: 1.0}, TABLE[scale], {arm: own[arm]})


@lru_cache(maxsize=1)
def papers_table(scale: str) -> RouterTable:
    """The paper's labels from one pass of effects, shared by the jobs of a process."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, TEACHER))

    def label(batch: ExampleBatch) -> dict[str, Tensor]:
        effects = Effects(batch, Fast(model))
        found = (floored(effects, BUDGET), evidence_sets(effects), greedy_sets(effects))
        return {
            name: acceptable_sets(label, alternatives(label, effects))
            for name, label in zip(PAPERS, found, strict=True)
        }

    return make_table(config, {CONDITION: 1.0}, TABLE[scale], label)


def family_target(found: list[FoundFamily], n_blocks: int) -> Tensor:
    """(B, S, N) bool: the smallest sets of each family, rows of zeros where there are fewer."""
    target = torch.zeros(len(found), max(1, max(len(family.smallest) for family in found)), n_blocks, dtype=torch.bool)
    for i, family in enumerate(found):
        for row, keep in enumerate(sorted(family.smallest, key=sorted)):
            target[i, row, sorted(keep)] = True
    return target


TITLES = {
    "families": "Found families (ours)",
    "floored": "Floored drops, else singletons (the paper's estimator)",
    "evidence": "Evidence set",
    "greedy": "Greedy set",
    "attention": "Attention (KL)",
    "annotated": "Annotated chains (upper bound)",
    "random": "Random",
}


def family_routing_table(results: Results) -> Table:
    """Routers for two disjoint chains, by the label they learned from."""
    there = results.coordinates("label")
    rows = []
    for label in (name for name in TITLES if name in there):
        found = (
            results.values("chain_recall", label=label),
            results.values("routed", label=label, operator="mask"),
            results.values("routed", label=label, operator="nonce"),
        )
        cells = [bracket(values) if label in ARMS else f"{values[0]:.2f}" for values in found]
        rows.append((TITLES[label], *cells))
    run = next(run for run in results.runs.values() if run.at["label"] in ARMS)
    return Table(
        name="family-routing",
        caption=(
            f"Two disjoint chains to one answer, three of {run.config['n_blocks']} blocks kept by a chain router: mean "
            "over router seeds with the range. Masked accuracy can be had without a chain, by copying the only value "
            "left; with the rest overwritten by nonce records it cannot."
        ),
        columns=("Label the router learned from", "Keeps a whole chain", "Answers, rest masked", "Answers, rest nonce"),
        rows=tuple(rows),
        notes=(
            training_note(run),
            f"Teacher {MIXTURE}-{TEACHER}: half as many records as in the other tables of chains, and far fewer keys, "
            "because families of many examples are searched for. It learned from one chain and does not follow the one "
            "it is asked for (following). Nonce records put another chain in sight: the last column asks more of it "
            "than it has learned, whatever is kept.",
        ),
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=46,
    jobs=jobs,
    teachers=lambda scale: [(MIXTURE, TEACHER)],
    reports=(
        Report("Routers trained on found families of two disjoint chains", "chains", family_routing_table, beyond=True),
    ),
)

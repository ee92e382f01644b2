"""Pooling routers on the labels of one teacher, and what teachers answer from the blocks they keep.

Shared by ``routing``, ``ablation`` and ``guard``, so that all arms are trained and scored alike. An arm is trained
alone: every arm starts from the same weights and reads the same examples in the same order, and none has a part in
another's loss.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

import torch

from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import run_result
from keepset.paper.result import Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import budget_blocks, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.router_tables import Label, label_table
from keepset.paper.router_training import fit_arm
from keepset.paper.statistics import PairedDifference, marked_share, paired_difference, share
from keepset.paper.teachers import teacher_folder, teacher_seeds
from keepset.paper.testbed.routers import Router, score_blocks
from keepset.paper.testbed.tasks.conditions import find_condition
from keepset.paper.testbed.teachers.presets import MIXTURES
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.routers import Loss, table_stream
from keepset.routers.training import LEARNING_RATE

BUDGET = 0.1
EXAMPLES = {"smoke": 6, "small": 300, "paper": 500}
TABLE = {"smoke": 128, "small": 25_600, "paper": 256_000}
"""Labelled training examples; the small scale reads its table ten times."""
STEPS = {"smoke": 10, "small": 4_000, "paper": 4_000}


def train_arm(
    scale: str,
    mixture: str,
    source: int,
    loss: Loss,
    label: Label,
    router_seeds: int,
    steps: int,
    learning_rate: float = LEARNING_RATE,
    times_table: int = 1,
) -> list[Router]:
    """One pooling router per seed, on the labels of teacher ``source``."""
    model, config = load_teacher(teacher_folder(scale, mixture, source))
    with torch.no_grad():
        table = label_table(model, config, MIXTURES[mixture], times_table * TABLE[scale], {"arm": label})
    stream = table_stream(table.tokens, table.targets, run=source)
    return fit_arm("pooling", config, "arm", loss, stream, router_seeds, steps, learning_rate)


def routed_metrics(
    scale: str,
    mixture: str,
    teachers: Iterable[int],
    conditions: Iterable[str],
    routers: Sequence[Router],
    fewest: int = 1,
) -> Iterator[Metric]:
    """Every router on every teacher and condition.

    The budget is a tenth of the blocks, but never under ``fewest``.
    """
    for teacher in teachers:
        model, config = load_teacher(teacher_folder(scale, mixture, teacher))
        for condition in conditions:
            batch = evaluation_batch(config, condition, EXAMPLES[scale])
            k = max(fewest, budget_blocks(BUDGET, len(batch.blocks)))
            probe = routed_probe(model, batch)
            for seed, router in enumerate(routers):
                right: list[bool] = routed_correct(probe, top_blocks(score_blocks(router, batch), k)).tolist()
                yield marked_share("routed", right, teacher=teacher, condition=condition, router_seed=seed)


def covered_metrics(
    scale: str, mixture: str, source: int, conditions: Iterable[str], routers: Sequence[Router]
) -> Iterator[Metric]:
    """How often the blocks a router keeps hold the evidence; no teacher has a part in it."""
    _, config = load_teacher(teacher_folder(scale, mixture, source))
    for condition in conditions:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        k = budget_blocks(BUDGET, len(batch.blocks))
        for seed, router in enumerate(routers):
            missing = batch.family & ~top_blocks(score_blocks(router, batch), k).unsqueeze(1)
            held = (batch.family.any(2) & ~missing.any(2)).any(1)
            yield share("covered", int(held.sum()), len(batch), condition=condition, router_seed=seed)


def unrouted_metrics(
    scale: str, mixture: str, teachers: Iterable[int], conditions: Iterable[str], fewest: int = 1
) -> Iterator[Metric]:
    """What no router has a part in: every teacher with the whole context, with random gates, and with the evidence
    among random blocks."""
    for teacher in teachers:
        model, config = load_teacher(teacher_folder(scale, mixture, teacher))
        for condition in conditions:
            batch = evaluation_batch(config, condition, EXAMPLES[scale])
            k = max(fewest, budget_blocks(BUDGET, len(batch.blocks)))
            chance = random_scores(len(batch), len(batch.blocks), evaluation_seed(condition))
            probe = routed_probe(model, batch)
            right = {
                "dense": accuracy(model, batch),
                "random": routed_correct(probe, top_blocks(chance, k)),
                "annotated": routed_correct(probe, top_blocks(chance + batch.family[:, 0], k)),
            }
            for arm, correct in right.items():
                yield share("routed", int(correct.sum()), len(batch), arm=arm, teacher=teacher, condition=condition)


def unrouted_run(experiment: str, scale: str, mixture: str, conditions: Sequence[str], fewest: int = 1) -> RunResult:
    """Every teacher of a mixture on every condition, dense and with random gates."""
    started = time.monotonic()
    teachers = teacher_seeds(scale, mixture)
    return run_result(
        experiment,
        scale,
        started,
        at={"mixture": mixture},
        config=settings(scale, mixture, teachers, conditions, fewest),
        seeds={"evaluation": evaluation_seed(conditions[0])},
        counts={"examples": EXAMPLES[scale]},
        metrics=unrouted_metrics(scale, mixture, teachers, conditions, fewest),
    )


def settings(
    scale: str, mixture: str, teachers: Sequence[int], conditions: Iterable[str], fewest: int = 1
) -> dict[str, Any]:
    """What a run says of the contexts it was scored on."""
    _, config = load_teacher(teacher_folder(scale, mixture, teachers[0]))
    return {
        "budget": BUDGET,
        "teachers": list(teachers),
        "blocks": {condition: config.n_blocks * find_condition(condition).length for condition in conditions},
    } | ({"fewest_blocks": fewest} if fewest > 1 else {})


def per_teacher(results: Results, condition: str, **at: Coordinate) -> list[float]:
    """Routed accuracy on each teacher, mean over router seeds."""
    found = results.select("routed", condition=condition, **at)
    means = {teacher: fmean(values) for teacher, values in found.groupby("teacher")["value"]}
    teachers = results.coordinates("teacher")
    if missing := [teacher for teacher in teachers if teacher not in means]:
        raise KeyError(f"no number 'routed' of teachers {missing} at {condition}, {at}")
    return [means[teacher] for teacher in teachers]


def over_teachers(results: Results, condition: str, **at: Coordinate) -> float:
    return fmean(per_teacher(results, condition, **at))


def paired_gap(results: Results, condition: str, **at: Coordinate) -> PairedDifference:
    """Causal minus imitation, paired over teachers."""
    causal, imitation = (per_teacher(results, condition, arm=arm, **at) for arm in ("causal", "imitation"))
    return paired_difference(causal, imitation)


def routed_cells(results: Results, condition: str, **at: Coordinate) -> dict[tuple[int, int], Metric]:
    """Teacher and router seed -> routed accuracy."""
    found = results.select("routed", condition=condition, **at)
    if found.empty:
        raise KeyError(f"no number 'routed' of {', '.join(map(str, at.values()))} at {condition}")
    return {
        (teacher, router): results.metric("routed", condition=condition, teacher=teacher, router_seed=router, **at)
        for teacher, router in zip(found["teacher"], found["router_seed"], strict=True)
    }


def signed(gap: PairedDifference) -> str:
    return f"{gap.mean:+.3f} ± {gap.standard_error:.3f}"


def counts(results: Results) -> str:
    """What stands behind every cell of a table of one experiment."""
    run = results.run()
    return (
        f"{run.scale.capitalize()} scale; n = {run.counts['examples']} examples per teacher and condition, "
        f"{len(results.coordinates('teacher'))} teachers, {len(results.coordinates('router_seed'))} router seeds."
    )

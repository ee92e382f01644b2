"""Labels without annotations: every estimator against what the tasks know (``tab:recovered``, ``tab:temperature``).

The recovery mixture is unique retrieval, latest write and multi-hop in equal parts, with a budget of three blocks: the
paper's own budget row matches on 0.36 of its mixture, which is the share whose evidence has exactly the budget's size.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from keepset import seeds
from keepset.interventions import Effects, Fast, GoldToken
from keepset.labels import ESTIMATORS, FLOOR, covered, exact_match, floored, keep_sets, recover, top_k
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_seeds
from keepset.readouts import input_saliency

EXPERIMENT = "recovery"
TEMPERATURE = "temperature"
MIXTURE = "five-task"
CONDITIONS = ("unique", "latest_write", "multihop")
BUDGET = 3
EXAMPLES = {"smoke": 8, "small": 400, "paper": 2_667}
"""Per condition; the paper labels 8,000 in all."""
TEMPERATURE_EXAMPLES = {"smoke": 8, "small": 200, "paper": 667}
TEMPERATURES = (0.5, 1.0, 2.0, 4.0)
FLOORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The paper sweeps its floor from 0.25 to 4 nats."""


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"recovery/{MIXTURE}-{seed}": partial(recovery, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def temperature_jobs(scale: str) -> Jobs:
    """One result: the first teacher, as in the paper."""
    return {f"recovery/temperature-{MIXTURE}-0": partial(temperatures, scale, 0)}


def recovery(scale: str, seed: int) -> RunResult:
    """Match and cover of every estimator on one teacher."""
    started = time.monotonic()
    subjects = [Labelled.load(scale, MIXTURE, seed, condition, EXAMPLES[scale]) for condition in CONDITIONS]
    estimators: dict[str, Callable[[Labelled], Tensor]] = {name: partial(recovered, name) for name in ESTIMATORS} | {
        "saliency": salient
    }
    estimators |= {f"floor_{floor:g}": partial(floored_at, floor) for floor in FLOORS}
    metrics = [proportion("wrong", sum(int((~s.effects.clean_correct).sum()) for s in subjects), total(subjects))]
    for name, label in estimators.items():
        metrics += agreement(name, subjects, [label(subject) for subject in subjects])
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={"mixture": MIXTURE, "seed": seed, "conditions": list(CONDITIONS), "budget": BUDGET, "floor": FLOOR},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": total(subjects)},
        metrics=metrics,
    )


def total(subjects: list[Labelled]) -> int:
    return sum(subject.n for subject in subjects)


def recovered(name: str, subject: Labelled) -> Tensor:
    return recover(name, subject.effects, BUDGET)


def floored_at(floor: float, subject: Labelled) -> Tensor:
    return floored(subject.effects, BUDGET, floor)


def salient(subject: Labelled) -> Tensor:
    """The blocks with most input-gradient saliency, as many as the budget has room for."""
    batch = subject.batch
    return top_k(input_saliency(subject.model, batch.first_query(), batch.blocks, batch.answers[:, :1]), BUDGET)


def agreement(name: str, subjects: list[Labelled], labels: list[Tensor]) -> list[Metric]:
    """Match with the annotated union and cover of an annotated set: over the mixture, then per condition."""
    matches, covers = [], []
    for subject, label in zip(subjects, labels, strict=True):
        families = [example.family or frozenset() for example in subject.effects.probe.examples]
        matches.append(int(exact_match(label, subject.known).sum()))
        covers.append(sum(covered(keep_sets(label), families)))
    metrics = [
        proportion(f"{name}_match", sum(matches), total(subjects)),
        proportion(f"{name}_cover", sum(covers), total(subjects)),
    ]
    for subject, match, cover in zip(subjects, matches, covers, strict=True):
        metrics.append(proportion(f"{name}_match_{subject.condition}", match, subject.n))
        metrics.append(proportion(f"{name}_cover_{subject.condition}", cover, subject.n))
    return metrics


def temperatures(scale: str, seed: int) -> RunResult:
    """The floored estimator when the logits are divided by a temperature."""
    started = time.monotonic()
    subjects = [Labelled.load(scale, MIXTURE, seed, condition, TEMPERATURE_EXAMPLES[scale]) for condition in CONDITIONS]
    labels: dict[float, list[Tensor]] = {}
    metrics: list[Metric] = []
    for temperature in sorted(TEMPERATURES, key=lambda t: t != 1.0):  # 1 first: the others are compared with it
        effects = [Effects(s.batch, Fast(s.model), GoldToken(temperature)) for s in subjects]
        labels[temperature] = [floored(e, BUDGET) for e in effects]
        drops = torch.cat([e.drop for e in effects])
        same = sum(int(exact_match(a, b).sum()) for a, b in zip(labels[temperature], labels[1.0], strict=True))
        name = f"t{temperature:g}"
        n = total(subjects)
        metrics += agreement(name, subjects, labels[temperature])[:2]
        metrics += [
            Metric(name=f"{name}_median_max_drop", value=float(drops.amax(1).median()), n=n),
            Metric(name=f"{name}_blocks_over_floor", value=float((drops >= FLOOR).sum(1).float().mean()), n=n),
            proportion(f"{name}_identical", same, n),
        ]
    return run_result(
        TEMPERATURE,
        scale,
        started,
        config={"mixture": MIXTURE, "seed": seed, "conditions": list(CONDITIONS), "budget": BUDGET, "floor": FLOOR},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": total(subjects)},
        metrics=metrics,
    )

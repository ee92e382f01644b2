"""Is the gap a matter of tuning? Both arms of the routing experiment at other learning rates and three times the steps;
then with two choices of ours made otherwise: as many labelled examples as the paper has, so that none is read twice,
and attention pooled by the strongest head.

Gives ``tab:app-guard``: labels of teacher 0, routed on the first three teachers. One result per retuning and arm; the
dense teachers and random gates are those of ``routing``.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from keepset.paper.claim import Claim, ahead_claim
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.pooling import (
    EXAMPLES,
    STEPS,
    TABLE,
    counts,
    over_teachers,
    paired_gap,
    routed_cells,
    routed_metrics,
    settings,
    signed,
    train_arm,
)
from keepset.paper.result import RunResult
from keepset.paper.results import Results
from keepset.paper.router_tables import Label, block_attention
from keepset.paper.router_training import training_seeds
from keepset.paper.routing.run import ARMS, MIXTURE
from keepset.paper.table import Table
from keepset.paper.teachers import every_teacher, teacher_seeds
from keepset.routers.training import LEARNING_RATE

NAME = "guard"
SOURCE = 0
CONDITIONS = {"unique_4x": "Unique 4×", "latest_write_4x": "Latest 4×"}
TEACHERS = 3
"""How many the paper routes after retuning."""
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}


@dataclass(frozen=True)
class Retuning:
    """How training differs from the routing experiment."""

    title: str
    learning_rate: float = LEARNING_RATE
    times_steps: int = 1
    times_table: int = 1
    attention: Label = block_attention


RETUNINGS = {
    "lr-3e-4": Retuning("learning rate 3e-4", learning_rate=3e-4),
    "lr-3e-3": Retuning("learning rate 3e-3", learning_rate=3e-3),
    "steps-3x": Retuning("3× steps", times_steps=3),
    "max-heads": Retuning("attention of the strongest head", attention=partial(block_attention, heads="max")),
    "table-10x": Retuning("every example read once", times_table=10),
}


def jobs(scale: str) -> Jobs:
    """One result per retuning and arm."""
    return {f"guard/{name}-{arm}": partial(guard, scale, name, arm) for name in RETUNINGS for arm in ARMS}


def guard(scale: str, name: str, arm: str) -> RunResult:
    """One arm retrained as ``name`` says."""
    started = time.monotonic()
    retuning = RETUNINGS[name]
    loss, label = ARMS[arm]
    steps = STEPS[scale] * retuning.times_steps
    routers = train_arm(
        scale,
        MIXTURE,
        SOURCE,
        loss,
        retuning.attention if arm == "imitation" else label,
        ROUTER_SEEDS[scale],
        steps,
        retuning.learning_rate,
        retuning.times_table,
    )
    teachers = teacher_seeds(scale, MIXTURE)[:TEACHERS]
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "source": SOURCE, "retuning": name, "arm": arm},
        config=settings(scale, MIXTURE, teachers, CONDITIONS)
        | {"learning_rate": retuning.learning_rate, "router_seeds": ROUTER_SEEDS[scale], "router": "pooling"},
        seeds=training_seeds(SOURCE),
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale] * retuning.times_table, "steps": steps},
        metrics=routed_metrics(scale, MIXTURE, teachers, CONDITIONS, routers),
    )


PAPER = {
    ("lr-3e-4", "unique_4x"): ("0.64", "0.71", "+0.08"),
    ("lr-3e-4", "latest_write_4x"): ("0.78", "0.79", "+0.00"),
    ("lr-3e-3", "unique_4x"): ("0.61", "0.74", "+0.13"),
    ("lr-3e-3", "latest_write_4x"): ("0.76", "0.78", "+0.03"),
    ("steps-3x", "unique_4x"): ("0.61", "0.69", "+0.08"),
    ("steps-3x", "latest_write_4x"): ("0.77", "0.77", "+0.00"),
}
"""Imitation, causal, gap."""
NOT_IN_THE_PAPER = ("–", "–", "not in it")


def retuned(results: Results) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Retuning, condition and the paper's numbers, of what was run."""
    found = results.coordinates("retuning")
    for retuning in RETUNINGS:
        if retuning in found:
            for condition in CONDITIONS:
                yield retuning, condition, PAPER.get((retuning, condition), NOT_IN_THE_PAPER)


def guard_table(results: Results) -> Table:
    """Both arms at every retuning there is, paired over teachers."""
    rows = [
        (
            RETUNINGS[retuning].title,
            CONDITIONS[condition],
            f"{over_teachers(results, condition, arm='imitation', retuning=retuning):.2f} ({imitation})",
            f"{over_teachers(results, condition, arm='causal', retuning=retuning):.2f} ({causal})",
            f"{signed(paired_gap(results, condition, retuning=retuning))} ({gap})",
        )
        for retuning, condition, (imitation, causal, gap) in retuned(results)
    ]
    return Table(
        name="tab-app-guard",
        caption=(
            f"Tuning guard: both routers retrained on the labels of {MIXTURE} teacher 0 with one thing changed at a "
            "time (elsewhere the learning rate is 1e-3, heads are averaged, and a tenth as many examples as steps ask "
            "for are read ten times); mean over teachers and router seeds (the paper's in brackets). Gap: causal minus "
            "imitation, paired over teachers, ± standard error."
        ),
        columns=("Retuning", "Condition", "Imitation", "Causal", "Gap"),
        rows=tuple(rows),
        notes=(counts(results),),
    )


def guard_claims(results: Results) -> list[Claim]:
    """The gap under length shift survives every retuning of both routers."""
    return [
        ahead_claim(
            f"{CONDITIONS[condition]}, retuned ({RETUNINGS[retuning].title}): causal ahead of imitation",
            gap,
            routed_cells(results, condition, retuning=retuning, arm="causal"),
            routed_cells(results, condition, retuning=retuning, arm="imitation"),
        )
        for retuning, condition, (_, _, gap) in retuned(results)
    ]


EXPERIMENT = Experiment(
    name=NAME,
    place=51,
    jobs=jobs,
    teachers=lambda scale: every_teacher(MIXTURE)(scale)[:TEACHERS],
    reports=(Report("tab:app-guard", "routing", guard_table),),
    claims=guard_claims,
)

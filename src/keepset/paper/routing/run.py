"""How the runs of ``routing`` are made: pooling routers on the labels of one teacher, every teacher routed."""

import time
from functools import partial
from itertools import chain

from keepset.paper.experiment import Jobs, run_result
from keepset.paper.pooling import (
    EXAMPLES,
    STEPS,
    TABLE,
    covered_metrics,
    routed_metrics,
    settings,
    train_arm,
    unrouted_run,
)
from keepset.paper.result import RunResult
from keepset.paper.router_tables import Label, annotated_family, block_attention
from keepset.paper.router_training import training_seeds
from keepset.paper.teachers import RECORDS, teacher_seeds
from keepset.routers import KL, Coverage, Loss

NAME = "routing"
MIXTURE = RECORDS
CONDITIONS = {
    "unique": "Unique retrieval",
    "latest_write": "Latest write",
    "duplicate": "Duplicate evidence",
    "latest_write_stale4": "Latest write, stale-4",
    "unique_family": "Unique, family distractors",
    "unique_2x": "Unique, 2× length",
    "latest_write_2x": "Latest, 2× length",
    "unique_4x": "Unique, 4× length",
    "latest_write_4x": "Latest, 4× length",
}
ROUTER_SEEDS = {"smoke": 2, "small": 5, "paper": 5}
ARMS: dict[str, tuple[Loss, Label]] = {"imitation": (KL(), block_attention), "causal": (Coverage(), annotated_family)}
SOURCE = 0
"""The teacher whose labels ``tab:routing`` uses."""


def jobs(scale: str) -> Jobs:
    """What no router has a part in, then one result per source of labels and arm."""
    found: Jobs = {"routing/unrouted": partial(unrouted_run, NAME, scale, MIXTURE, tuple(CONDITIONS))}
    for source in teacher_seeds(scale, MIXTURE):
        for arm in ARMS:
            found[f"routing/source-{source}-{arm}"] = partial(route, scale, source, arm)
    return found


def route(scale: str, source: int, arm: str) -> RunResult:
    """Trains one arm on the labels of teacher ``source``; routes every teacher on every condition."""
    started = time.monotonic()
    loss, label = ARMS[arm]
    teachers = teacher_seeds(scale, MIXTURE)
    routers = train_arm(scale, MIXTURE, source, loss, label, ROUTER_SEEDS[scale], STEPS[scale])
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "source": source, "arm": arm},
        config=settings(scale, MIXTURE, teachers, CONDITIONS)
        | {"router_seeds": ROUTER_SEEDS[scale], "router": "pooling"},
        seeds=training_seeds(source),
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale]},
        metrics=chain(
            routed_metrics(scale, MIXTURE, teachers, CONDITIONS, routers),
            covered_metrics(scale, MIXTURE, source, CONDITIONS, routers),
        ),
    )

"""Is the gap a matter of tuning? Both arms of the routing experiment at other learning rates and three times the steps.

Gives ``tab:app-guard``: labels of teacher 0, routed on the first three teachers. One result per retuning.
"""

import time
from dataclasses import dataclass
from functools import partial

from keepset import seeds
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.routing import BUDGET, EXAMPLES, MIXTURE, STEPS, TABLE, routed_metrics, train
from keepset.paper.teachers import teacher_seeds
from keepset.routers.training import LEARNING_RATE

EXPERIMENT = "guard"
SOURCE = 0
CONDITIONS = ("unique_4x", "latest_write_4x")
TEACHERS = 3
"""How many the paper routes after retuning."""
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}


@dataclass(frozen=True)
class Retuning:
    """How training differs from the routing experiment."""

    learning_rate: float = LEARNING_RATE
    times_steps: int = 1


RETUNINGS = {
    "lr-3e-4": Retuning(learning_rate=3e-4),
    "lr-3e-3": Retuning(learning_rate=3e-3),
    "steps-3x": Retuning(times_steps=3),
}


def jobs(scale: str) -> Jobs:
    """One result per retuning."""
    return {f"guard/{name}": partial(guard, scale, name) for name in RETUNINGS}


def guard(scale: str, name: str) -> RunResult:
    """Both arms retrained as ``name`` says."""
    started = time.monotonic()
    retuning = RETUNINGS[name]
    steps = STEPS[scale] * retuning.times_steps
    routers = train(scale, SOURCE, ROUTER_SEEDS[scale], steps, retuning.learning_rate)
    teachers = teacher_seeds(scale, MIXTURE)[:TEACHERS]
    metrics: list[Metric] = []
    for destination in teachers:
        metrics += routed_metrics(scale, MIXTURE, destination, CONDITIONS, routers)
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "retuning": name,
            "learning_rate": retuning.learning_rate,
            "mixture": MIXTURE,
            "source": SOURCE,
            "budget": BUDGET,
            "conditions": list(CONDITIONS),
            "teachers": list(teachers),
            "router_seeds": ROUTER_SEEDS[scale],
            "router": "pooling",
        },
        seeds={"router_init": seeds.ROUTER_INIT.seed(0), "router_stream": seeds.ROUTER_STREAM.seed(SOURCE)},
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": steps},
        metrics=metrics,
    )

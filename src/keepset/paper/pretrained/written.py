"""What every result of the package says of its run, and how a bar becomes a claim."""

from collections.abc import Callable, Iterable
from typing import Any

from keepset import seeds
from keepset.paper.claim import Claim, above, interval, side_of_zero, signed_interval, told
from keepset.paper.experiment import run_result
from keepset.paper.pretrained.examples import Task, task_seed
from keepset.paper.pretrained.settings import OBSOLETE, RUN, Setting, frozen
from keepset.paper.result import Coordinate, Metric, RunResult


def config(setting: Setting) -> dict[str, Any]:
    """How every model is asked."""
    return {
        "model": setting.model,
        "quantize": setting.quantize,
        "dtype": str(frozen(setting)[0].dtype).removeprefix("torch."),
        "prompt": "plain",
        "obsolete_writes": OBSOLETE,
    }


def record_result(
    experiment: str,
    scale: str,
    started: float,
    setting: Setting,
    task: Task,
    records: int,
    metrics: Iterable[Metric | None],
    counts: dict[str, int],
    about: dict[str, Any] | None = None,
    **at: Coordinate,
) -> RunResult:
    """One result on record tasks; metrics that were counted on nothing are left out."""
    return run_result(
        experiment,
        scale,
        started,
        at={"model": setting.name, "task": task, "records": records, **at},
        config={**config(setting), **(about or {})},
        seeds={
            "evaluation": task_seed(task, records, learning=False),
            "lessons": task_seed(task, records, learning=True),
            "intervention": seeds.INTERVENTION.seed(RUN),
        },
        counts=counts,
        metrics=counted(metrics),
    )


def counted(metrics: Iterable[Metric | None]) -> list[Metric]:
    """Those that were counted on something."""
    return [metric for metric in metrics if metric]


def bar_claim(
    text: str,
    paper: str,
    metric: Metric,
    bar: float,
    units: str,
    side: Callable[[Metric, float], str] = above,
) -> Claim:
    """A share against a bar; nothing is told of too few units."""
    return Claim(text, paper, interval(metric), f"{metric.n} {units}", told(side(metric, bar), metric.n))


def ahead_claim(text: str, paper: str, gap: Metric, units: str) -> Claim:
    """One share ahead of another of the same examples."""
    return Claim(text, paper, signed_interval(gap), f"{gap.n} {units}", told(side_of_zero(gap, ahead=True), gap.n))

"""Running experiments: what is missing is computed, what exists stays."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from keepset.results import Metric, RunResult, current_commit, load_result, package_versions, save_result

Jobs = dict[str, Callable[[], RunResult]]
"""Result file, without folder of the scale and ending -> the function that makes it."""


def result_path(results: Path, scale: str, name: str) -> Path:
    return results / scale / f"{name}.json"


def run_missing(jobs: Jobs, results: Path, scale: str) -> Iterator[tuple[str, RunResult]]:
    """Runs the jobs whose result is missing, in order, saving each as it ends."""
    for name, job in jobs.items():
        path = result_path(results, scale, name)
        if not path.exists():
            result = job()
            save_result(result, path)
            yield name, result


def finished(jobs: Jobs, results: Path, scale: str) -> dict[str, RunResult]:
    """The results that exist already."""
    paths = {name: result_path(results, scale, name) for name in jobs}
    return {name: load_result(path) for name, path in paths.items() if path.exists()}


def run_result(
    experiment: str,
    scale: str,
    started: float,
    *,
    config: dict[str, Any],
    seeds: dict[str, int],
    counts: dict[str, int],
    metrics: Iterable[Metric],
    command: str | None = None,
) -> RunResult:
    """The result of a run that began at ``time.monotonic()`` = ``started``, with the code and packages that ran."""
    return RunResult(
        experiment=experiment,
        scale=scale,
        command=f"{command or f'keepset reproduce {experiment}'} --scale {scale}",
        config=config,
        seeds=seeds,
        commit=current_commit(),
        versions=package_versions(),
        counts=counts,
        seconds=round(time.monotonic() - started, 1),
        metrics=tuple(metrics),
    )

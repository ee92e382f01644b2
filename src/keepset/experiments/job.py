"""Running experiments: what is missing is computed, what exists stays."""

from collections.abc import Callable, Iterator
from pathlib import Path

from keepset.results import RunResult, load_result, save_result

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

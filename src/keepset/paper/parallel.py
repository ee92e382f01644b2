"""Independent runs of one experiment side by side, by the workers that label too."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keepset.jobs.engines import open_pool
from keepset.paper.catalogue import experiments
from keepset.paper.experiment import Jobs, missing, result_path
from keepset.paper.result import RunResult, save_result


@dataclass(frozen=True)
class StartRuns:
    """Makes what runs the jobs of one experiment, wherever it is called."""

    experiment: str
    scale: str

    def __call__(self, number: int) -> "Runs":
        return Runs(self.experiment, experiments()[self.experiment].jobs(self.scale))


class Runs:
    """Runs one job after the other."""

    def __init__(self, experiment: str, jobs: Jobs) -> None:
        self.identity = experiment
        self._jobs = jobs

    def __call__(self, name: str) -> RunResult:
        return self._jobs[name]()


def run_missing_together(
    experiment: str, jobs: Jobs, results: Path, scale: str, workers: int
) -> Iterator[tuple[str, RunResult]]:
    """As ``run_missing``, ``workers`` jobs at a time; each result is saved as its job ends."""
    left = missing(jobs, results, scale)
    if not left:
        return
    with open_pool(StartRuns(experiment, scale), "local", min(workers, len(left))) as pool:
        for name, result in pool.run(left):
            save_result(result, result_path(results, scale, name))
            yield name, result

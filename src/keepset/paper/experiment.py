"""What a file of the laboratory declares: how its runs are made, and what is said of them.

    EXPERIMENT = Experiment(
        name="per_query",
        place=42,
        jobs=jobs,
        reports=(Report("tab:per-query", "chains", per_query_table),),
        claims=per_query_claims,
        differences=(Difference("tab:per-query, ...", "1.00", here, "cause; not tested"),),
        choices=(Choice("Heads of per-query attention", "the maximum, then ..."),),
    )

A file in ``keepset.paper`` with an ``EXPERIMENT`` is found by itself (``catalogue``): its jobs run with
``keepset reproduce``, its tables, claims and differences come out of ``keepset report``, its rows into the paper map.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepset.paper.claim import Claim
from keepset.paper.result import At, Metric, RunResult, current_commit, load_result, save_result
from keepset.paper.results import Results
from keepset.paper.table import Figure, Table
from keepset.versions import package_versions

Jobs = dict[str, Callable[[], RunResult]]
"""Result file, without folder of the scale and ending -> what makes it. One arm, policy or teacher each."""

Teachers = Callable[[str], list[tuple[str, int]]]
"""Scale -> mixture and seed of teachers."""


def no_teachers(scale: str) -> list[tuple[str, int]]:
    return []


@dataclass(frozen=True)
class Report:
    """A table or figure, or several of one kind."""

    label: str
    """The paper's label ('tab:chain', several with commas), or what of it this is ('Section 3, stale attention')."""
    section: str
    """Subfolder of ``docs/results``: teachers, labels, routing, chains, pretrained, eviction, cost."""
    make: Callable[[Results], Table | Figure | Sequence[Table | Figure]]
    needs: tuple[str, ...] = ()
    """Experiments whose results it reads beside the file's own."""
    beyond: bool = False
    """The paper does not have it."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labelled tables and figures of the paper that it is: 'tab:chain'."""
        return tuple(part for part in self.label.split(", ") if part.startswith(("tab:", "fig:")))


@dataclass(frozen=True)
class Difference:
    """Where a result differs from the paper: both numbers and the likeliest cause."""

    result: str
    paper: str
    here: Callable[[Results], str]
    cause: str
    """At the scale of the tracked results. Says "not tested" where it was not."""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Where the paper is silent."""

    question: str
    choice: str


@dataclass(frozen=True)
class Experiment:
    """One file of the laboratory."""

    name: str
    place: int
    """Order in the paper; its runs need only the runs of what stands before it."""
    jobs: Callable[[str], Jobs]
    """Scale -> its runs."""
    reports: tuple[Report, ...] = ()
    claims: Callable[[Results], list[Claim]] | None = None
    claims_need: tuple[str, ...] = ()
    """Experiments whose results the claims read beside the file's own, where they are there."""
    differences: tuple[Difference, ...] = ()
    choices: tuple[Choice, ...] = ()
    teachers: Teachers = no_teachers
    """The teachers that its runs read; those without weights are trained before it."""
    jobs_on: Callable[[str, Path], Jobs] | None = None
    """Scale, folder of data that keepset does not carry -> its runs; ``jobs`` looks in ``data``."""
    bench: bool = False
    """Measures this machine: run by ``keepset bench NAME``, never by ``keepset reproduce``."""

    @property
    def command(self) -> str:
        return f"keepset {'bench' if self.bench else 'reproduce'} {self.name}"


def result_path(results: Path, scale: str, name: str) -> Path:
    return results / scale / f"{name}.json"


def run_missing(jobs: Jobs, results: Path, scale: str) -> Iterator[tuple[str, RunResult]]:
    """Runs the jobs whose result is missing, in order, saving each as it ends."""
    for name, job in jobs.items():
        path = result_path(results, scale, name)
        if not path.exists():  # looked at in its turn: somebody else may have made it meanwhile
            result = job()
            save_result(result, path)
            yield name, result


def missing(jobs: Jobs, results: Path, scale: str) -> list[str]:
    """The runs that have no result yet."""
    return [name for name in jobs if not result_path(results, scale, name).exists()]


def finished(jobs: Jobs, results: Path, scale: str) -> dict[str, RunResult]:
    """The results that exist already."""
    paths = {name: result_path(results, scale, name) for name in jobs}
    return {name: load_result(path) for name, path in paths.items() if path.exists()}


def run_result(
    experiment: str,
    scale: str,
    started: float,
    *,
    at: At,
    config: dict[str, Any],
    seeds: dict[str, int],
    counts: dict[str, int],
    metrics: Iterable[Metric],
    command: str | None = None,
) -> RunResult:
    """The result of a run that began at ``time.monotonic()`` = ``started``, with the code and packages that ran."""
    measured = tuple(metrics)  # before the clock is read: most are computed as they are asked for
    return RunResult(
        experiment=experiment,
        scale=scale,
        at=at,
        command=f"{command or f'keepset reproduce {experiment}'} --scale {scale}",
        config=config,
        seeds=seeds,
        commit=current_commit(),
        versions=package_versions(),
        counts=counts,
        seconds=round(time.monotonic() - started, 1),
        metrics=measured,
    )

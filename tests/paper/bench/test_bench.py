"""Benchmarks are found by themselves, and never run by ``keepset reproduce``."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.bench import find_bench, find_jobs
from keepset.paper.catalogue import experiments, find_experiments


def test_every_benchmark_has_a_name_a_command_and_a_table() -> None:
    """kvpress's is the table of fact sheets."""
    benches = [experiment for experiment in experiments().values() if experiment.bench]
    assert [experiment.name for experiment in benches] == [
        "engine",
        "memory",
        "router",
        "prune",
        "evidence",
        "natural",
        "reliability",
        "int8",
        "kvpress",
    ]
    for experiment in benches:
        assert find_bench(experiment.name) is experiment
        assert experiment.command == f"keepset bench {experiment.name}"
        assert all(name.startswith(f"{experiment.name}/") for name in experiment.jobs("small"))
        sections = {"evidence": {"labels"}, "natural": {"eviction", "cost"}, "kvpress": set()}
        assert {report.section for report in experiment.reports} == sections.get(experiment.name, {"cost"})
    assert not {experiment.name for experiment in benches} & set(find_experiments([]))


def test_an_unknown_benchmark_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"benchmark: expected one of engine, memory, .*, reliability, int8, kvpress, got 'teachers'"
    ):
        find_bench("teachers")


def test_the_command_runs_what_is_missing_of_what_is_wanted(tmp_path: Path) -> None:
    command = ["bench", "router", "--scale", "smoke", "--results", str(tmp_path)]
    first, second = (CliRunner().invoke(app, [*command, *only]) for only in (("--only", "five"), ()))
    assert "0 of 1 results are there" in first.output
    assert "router/five-task" in first.output
    assert "1 of 1 results are there" in second.output
    assert [path.name for path in (tmp_path / "smoke" / "router").iterdir()] == ["five-task.json"]


def test_data_is_for_benchmarks_that_read_some(tmp_path: Path) -> None:
    assert list(find_jobs("evidence", "smoke", tmp_path)) == list(find_jobs("evidence", "smoke", None))
    with pytest.raises(ValueError, match="data: expected none for the benchmark 'router', which reads none, got"):
        find_jobs("router", "smoke", tmp_path)

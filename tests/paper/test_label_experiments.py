"""The label experiments end to end on untrained teachers: what they write, and the reports that read it."""

from pathlib import Path

import pytest

from keepset.paper import agreement, minimality, recovery, redundant
from keepset.paper.experiment import Jobs, run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import render_reports
from keepset.paper.result import RunResult
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for mixture in ("single-hop", "five-task", "hardened"):
        for seed in range(2):
            config = smoke(mixture, seed)
            mixing = config.architecture.model_copy(
                update={"zero_output_projections": False}
            )  # else nothing has effects
            config = config.model_copy(update={"architecture": mixing})
            save_teacher(build_teacher(config), config, folder / "teachers" / "smoke" / f"{mixture}-{seed}")
    return folder


@pytest.fixture(scope="module")
def results(root: Path) -> dict[str, RunResult]:
    """Every label experiment at smoke size, saved where the reports look."""
    jobs: Jobs = {}
    for make in (agreement.jobs, minimality.jobs, recovery.jobs, recovery.temperature_jobs, redundant.jobs):
        jobs |= make("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return dict(run_missing(jobs, root / "results", "small"))


def test_every_experiment_writes_what_its_report_reads(root: Path, results: dict[str, RunResult]) -> None:
    assert len(results) == 5 + 2 + 2 + 1 + 4
    names = {name.rsplit(".", 1)[0] for name in render_reports(root / "results")}
    assert names == {
        "tab-agreement",
        "tab-app-agreement",
        "stale-attention",
        "fig-redundancy",
        "minimality",
        "tab-recovered",
        "tab-temperature",
        "tab-redundant",
        "families",
        "README",
        "tables",
    }
    assert render_reports(root / "results") == render_reports(root / "results"), "the same bytes every time"


def test_agreement_is_over_pairs_of_teachers(results: dict[str, RunResult]) -> None:
    result = results["agreement/unique"]
    assert result.metric("causal_mean").value == result.metric("causal_0_1").value
    assert result.metric("adaptive_size_0").value <= 9
    assert "adaptive_holds_obsolete_0" in {metric.name for metric in results["agreement/latest_write"].metrics}


def test_temperature_one_is_identical_to_itself(results: dict[str, RunResult]) -> None:
    result = results["recovery/temperature-five-task-0"]
    assert result.metric("t1_identical").value == 1.0
    assert result.metric("t0.5_median_max_drop").value > result.metric("t4_median_max_drop").value


def test_a_larger_floor_never_names_more_by_drop(results: dict[str, RunResult]) -> None:
    assert results["recovery/five-task-0"].metric("floor_0.25_match").value == pytest.approx(
        results["recovery/five-task-0"].metric("floored_match").value
    )


def test_obsolete_writes_share_the_queried_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    subject = Labelled.load("smoke", "single-hop", 0, "latest_write", 12)
    assert not (subject.obsolete & subject.known).any()
    assert subject.obsolete.sum(1).tolist() == [2] * 12
    assert not Labelled.load("smoke", "single-hop", 0, "unique", 4).obsolete.any()

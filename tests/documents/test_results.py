"""What is tracked can be read, and every table comes out of it byte for byte."""

import json
from pathlib import Path

import pytest

from keepset.paper.report import render_reports
from keepset.paper.result import load_result
from keepset.paper.results import Results
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.teacher import load_teacher

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "results").rglob("*.json"))
TEACHERS = sorted(path.parent for path in (ROOT / "teachers").glob("*/*/teacher.json"))


def test_there_are_results_and_teachers() -> None:
    assert RESULTS
    assert TEACHERS


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_tracked_result_loads_and_has_counts(path: Path) -> None:
    result = load_result(path)
    assert result.scale == path.relative_to(ROOT).parts[1]
    assert result.command.startswith("keepset ")
    assert len(result.commit.removesuffix("+changes")) == 40
    assert result.metrics or nothing_was_answered(path)
    for metric in result.metrics:
        assert metric.n > 0
        if metric.low is not None and metric.high is not None:
            assert metric.low <= metric.value <= metric.high


def nothing_was_answered(path: Path) -> bool:
    """Whether a policy of eviction had no question to be judged on: its part's dense result says so."""
    dense = load_result(path.with_name("dense.json"))
    return all(metric.value == 0 for metric in dense.metrics if metric.what == "dense")


@pytest.mark.parametrize("folder", TEACHERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_tracked_teacher_loads(folder: Path) -> None:
    model, config = load_teacher(folder)
    assert folder.name == f"{config.mixture}-{config.seed}"
    assert model.config.vocab_size == config.vocabulary.size
    assert TeacherConfig.model_validate(json.loads((folder / "teacher.json").read_text())) == config


def test_every_report_is_what_the_results_give(tracked: Results) -> None:
    docs = ROOT / "docs"
    rendered = render_reports(tracked)
    assert rendered
    for name, text in rendered.items():
        found = docs / name
        assert found.exists(), f"docs/{name} is missing: run 'keepset report'"
        assert found.read_text(encoding="utf-8") == text, f"docs/{name} is not what 'keepset report' writes"
    tracked = {path.relative_to(docs).as_posix() for path in (docs / "results").rglob("*.*")}
    assert tracked == {name for name in rendered if name.startswith("results/")}

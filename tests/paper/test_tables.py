"""Tables in both forms, and the reports on results made in the test."""

from pathlib import Path

import pytest

from keepset.paper.report import render_reports
from keepset.paper.result import Metric, RunResult, save_result
from keepset.paper.statistics import proportion
from keepset.paper.table import Table, latex_text

TABLE = Table(
    name="t",
    caption="100 % of it_",
    columns=("a", "b", "c"),
    rows=(("x|y", "0.50", "1–2"), (), ("z", "2×", "")),
    notes=("n = 3",),
)


def test_markdown_escapes_bars_and_skips_rules() -> None:
    text = TABLE.markdown()
    assert "| x\\|y | 0.50 | 1–2 |" in text
    assert text.count("\n| ") == 3
    assert text.endswith("- n = 3\n")


def test_latex_escapes_specials_and_draws_rules() -> None:
    text = TABLE.latex()
    assert r"\caption{100 \% of it\_ n = 3}" in text
    assert text.count(r"\midrule") == 2
    assert r"z & 2$\times$ &  \\" in text
    assert latex_text("a\\b~^{}&#") == r"a\textbackslash{}b\textasciitilde{}\textasciicircum{}\{\}\&\#"


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="table t: expected 2 cells, got 1"):
        Table(name="t", caption="", columns=("a", "b"), rows=(("x",),))


def result(experiment: str, config: dict[str, object], metrics: tuple[Metric, ...]) -> RunResult:
    return RunResult(
        experiment=experiment,
        scale="small",
        command="keepset x",
        config=config,
        seeds={},
        commit="0" * 40,
        versions={},
        counts={"examples": 100, "steps": 600},
        seconds=1.0,
        metrics=metrics,
    )


def test_reports_show_what_the_results_say(tmp_path: Path) -> None:
    tasks = ("unique", "latest_write", "duplicate")
    metrics = tuple(proportion(task, 90 + i, 100) for i, task in enumerate(tasks))
    for seed in (0, 1):
        run = result("teachers", {"mixture": "single-hop", "seed": seed}, metrics)
        save_result(run, tmp_path / "small" / "teachers" / f"single-hop-{seed}.json")
    arm = {"label": "muon", "seed": 0, "tasks": ["unique"], "threshold": 0.95}
    solved = (Metric(name="unique_best", value=0.5, n=128),)
    save_result(result("optimizers", arm, solved), tmp_path / "small" / "optimizers" / "muon.json")
    anchors = (proportion("hiding_annotated_flips", 9, 10),)
    save_result(result("sanity", {}, anchors), tmp_path / "small" / "sanity" / "a.json")

    rendered = render_reports(tmp_path)
    assert "| single-hop | unique | 0.900 | 0.900 | 0.90–0.98 |" in rendered["tab-app-teachers.md"]
    assert "| duplicate | 100 | 0.920 (0.92–0.92) |" in rendered["teacher-conditions.md"]
    assert "| muon | 0 | 600 | not reached | 0.50 |" in rendered["time-to-solve.md"]
    assert "| hiding annotated flips | 0.98 | 0.900 | 0.900–0.900 | 1 | 10 |" in rendered["sanity-anchors.md"]
    assert {name.rsplit(".", 1)[1] for name in rendered} == {"md", "tex"}


def test_no_results_no_tables(tmp_path: Path) -> None:
    assert render_reports(tmp_path) == {}


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, 0.278), (5, 0.237, 0.763), (10, 0.722, 1.0)])
def test_the_wilson_interval(successes: int, low: float, high: float) -> None:
    metric = proportion("x", successes, 10)
    assert metric.low == pytest.approx(low, abs=1e-3)
    assert metric.high == pytest.approx(high, abs=1e-3)


def test_an_impossible_share_is_refused() -> None:
    with pytest.raises(ValueError, match="got 11 of 10"):
        proportion("x", 11, 10)

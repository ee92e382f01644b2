"""Tables in both forms, and the reports on results made in the test."""

import pytest
from rich.console import Console

from keepset.paper import optimizers, sanity, teachers
from keepset.paper.experiment import Experiment
from keepset.paper.report import made
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, latex_text, with_interval, with_paper
from keepset.paper.terminal import metrics_table
from keepset.paper.words import in_words, listed

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


def result(experiment: str, at: At, config: dict[str, object], *metrics: Metric) -> RunResult:
    return RunResult(
        experiment=experiment,
        scale="small",
        at=at,
        command="keepset x",
        config=config,
        seeds={},
        commit="0" * 40,
        versions={},
        counts={"examples": 100, "steps": 600},
        seconds=1.0,
        metrics=metrics,
    )


def pages(experiment: Experiment, *runs: RunResult) -> dict[str, str]:
    results = Results({str(i): run for i, run in enumerate(runs)})
    found = [item for report in experiment.reports for item in made(report, experiment, results)]
    return {item.name: item.markdown() for item in found if isinstance(item, Table)}


def test_teachers_show_what_the_results_say() -> None:
    tasks = ("unique", "latest_write", "duplicate")
    metrics = [share("accuracy", 90 + i, 100, condition=task) for i, task in enumerate(tasks)]
    full = result(
        "teachers", {"mixture": "paper-records", "teacher": 0}, {}, *metrics, share("accuracy", 5, 100, condition="x")
    )
    other = result("teachers", {"mixture": "paper-records", "teacher": 1}, {}, *metrics)
    shown = pages(teachers.EXPERIMENT, full, other)
    assert "| paper-records | unique | 0.900 | 0.900 | 0.90–0.98 |" in shown["tab-app-teachers"]
    assert "widest 95 % interval in the table is ±0.060." in shown["tab-app-teachers"]
    assert "| duplicate | 100 | 0.920 (0.92–0.92) |" in shown["teacher-conditions"]
    assert "| x | 100 | 0.050 (0.05–0.05), 1 of 2 |" in shown["teacher-conditions"]
    unique, hardened = (difference.here(Results({"0": full})) for difference in teachers.DIFFERENCES)
    assert (unique, hardened) == ("0.90", "no hardened-pointers-first teacher yet")


def test_optimizers_show_when_a_task_was_solved() -> None:
    config = {"tasks": ["unique"], "threshold": 0.95}
    best = Metric(what="best", at={"condition": "unique"}, value=0.5, n=128)
    solved = [
        Metric(what=what, at={"condition": "unique"}, value=value, n=128)
        for what, value in (("best", 1.0), ("solved_step", 150.0), ("solved_seconds", 90.0))
    ]
    shown = pages(
        optimizers.EXPERIMENT,
        result("optimizers", {"arm": "muon", "teacher": 0}, config, *solved),
        result("optimizers", {"arm": "adamw-1e-3", "teacher": 0}, config, best),
    )["time-to-solve"]
    slow, fast = shown.splitlines()[6:8]
    assert slow == "| adamw-1e-3 | 0 | 600 | not reached | 0.50 |"
    assert fast == "| muon | 0 | 600 | step 150 (1.5 min) | 1.00 |"


def test_sanity_anchors_are_pooled_over_teachers() -> None:
    def anchors(flipped: int, n: int) -> list[Metric]:
        return [
            share("annotated_suffices", n, n, condition="latest_write"),
            share("flips", flipped, n, hidden="annotated", condition="unique"),
            share("flips", 0, n, hidden="random_other", condition="unique"),
            share("mask_and_filler_agree", n, n, condition="unique"),
            share("top_attended_is_annotated", n, n, heads="max", condition="unique"),
            share("top_attended_is_annotated", 0, n, heads="mean", condition="unique"),
        ]

    config = {"teacher": {"vocabulary": {"values": 16}}}
    runs = [
        result("sanity", {"mixture": "single-hop", "teacher": i}, config, *anchors(*flips))
        for i, flips in enumerate(((9, 10), (15, 30)))
    ]
    shown = pages(sanity.EXPERIMENT, *runs)["sanity-anchors"]
    assert "| annotated suffices latest write | single-hop |  | 1.000 | 1.000–1.000 | 2 | 40 |" in shown
    assert "| hiding annotated flips | single-hop | 0.98 | 0.600 | 0.500–0.900 | 2 | 40 |" in shown
    assert "| top attended is annotated mean heads | single-hop | 0.99 | 0.000 | 0.000–0.000 | 2 | 40 |" in shown
    assert "a guess among 16 values, by teacher, is right one time in as many or more often." in shown


def test_no_results_no_tables() -> None:
    for experiment in (teachers.EXPERIMENT, optimizers.EXPERIMENT, sanity.EXPERIMENT):
        assert pages(experiment) == {}


def test_the_terminal_has_a_column_per_coordinate() -> None:
    console = Console(width=120)
    bare = Metric(what="seconds", at={"arm": "causal"}, value=2.0, n=1)
    with console.capture() as captured:
        console.print(metrics_table("five-task, seed 0", [share("accuracy", 1, 2, condition="unique"), bare]))
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in captured.get().splitlines() if "│" in line]
    assert cells == [
        ["accuracy", "unique", "", "0.500", "0.095 to 0.905", "2"],
        ["seconds", "", "causal", "2.000", "", "1"],
    ]


def test_numbers_and_lists_in_sentences() -> None:
    assert [in_words(number) for number in (2, 16, 64)] == ["two", "sixteen", "64"]
    assert [listed(items) for items in ([16], [16, 64], [16, 32, 64])] == ["16", "16 and 64", "16, 32 and 64"]


def test_a_number_with_its_interval_or_the_papers() -> None:
    assert with_interval(share("x", 5, 10)) == "0.50 [0.24, 0.76]"
    assert [with_paper(0.98, "0.99"), with_paper(0.98, ""), with_paper(21.96, "22.0", 1)] == [
        "0.98 (0.99)",
        "0.98",
        "22.0 (22.0)",
    ]


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, 0.278), (5, 0.237, 0.763), (10, 0.722, 1.0)])
def test_the_wilson_interval(successes: int, low: float, high: float) -> None:
    metric = share("x", successes, 10)
    assert metric.low == pytest.approx(low, abs=1e-3)
    assert metric.high == pytest.approx(high, abs=1e-3)


def test_an_impossible_share_is_refused() -> None:
    with pytest.raises(ValueError, match="got 11 of 10"):
        share("x", 11, 10)

"""Budgets and protocols end to end on untrained teachers."""

from pathlib import Path

import pytest
import torch

from keepset.blocks import Span
from keepset.paper import budget, per_query
from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import made
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Figure, Table
from keepset.paper.teachers import MULTIHOP, teacher_folder
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.readouts import answer_attention


def one_run(experiment: str, config: dict[str, object], metrics: list[Metric]) -> Results:
    run = RunResult(
        experiment=experiment,
        scale="small",
        at={"teacher": 0},
        command="keepset x",
        config=config,
        seeds={},
        commit="0" * 40,
        versions={},
        counts={"examples": 100},
        seconds=1.0,
        metrics=tuple(metrics),
    )
    return Results({"0": run})


def test_the_full_budget_is_the_dense_teacher(untrained: Path) -> None:
    results = Results(dict(run_missing(budget.jobs("smoke"), untrained / "results", "smoke")))
    assert list(results.runs) == [f"budget/paper-sizes-{name}" for name in ("0", "1", "0-shorter", "1-shorter")]
    model, config = load_teacher(teacher_folder("smoke", "paper-sizes", 1))
    for condition in budget.CONDITIONS:
        annotated = results.select("routed", condition=condition, arm="annotated", teacher=1)
        assert list(annotated["k"]) == list(range(1, 10))
        batch = evaluation_batch(config, condition, budget.EXAMPLES["smoke"])
        dense = accuracy(model, batch).float().mean()
        full = results.select("routed", condition=condition, k=9, teacher=1)
        assert set(full["arm"]) == (set(budget.READINGS) if condition == "aggregation" else {"annotated"})
        assert list(full["value"]) == pytest.approx([float(dense)] * len(full)), "nothing is hidden, in any reading"
    assert list(results.select("counted", teacher=1)["length"]) == [6, 8, 9]
    full_length = results.value("routed", condition="aggregation", arm="annotated", k=9, teacher=1)
    assert results.value("counted", teacher=1, length=9) == full_length
    figures, readings = budget.EXPERIMENT.reports
    figure, table = made(figures, budget.EXPERIMENT, results)
    assert made(readings, budget.EXPERIMENT, results)
    assert isinstance(figure, Figure)
    assert "Multi-hop" in figure.svg
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["1", "2", "3", "4", "5", "8", "9"]
    assert table.notes[0].startswith("Smoke scale; n = 6 examples per teacher and task, 2 paper-sizes teachers")
    for difference in budget.EXPERIMENT.differences:
        assert "blocks" in difference.here(results)


@pytest.mark.parametrize(("right", "verdict"), [(60, HOLDS), (85, OPEN), (200, FAILS)])
def test_counting_from_half_of_the_context_is_judged_teacher_by_teacher(right: int, verdict: str) -> None:
    """Of 300; a teacher at chance stands beside it."""

    def counted(k_right: int, teacher: int) -> list[Metric]:
        return [
            share("routed", k_right, 300, condition="aggregation", arm=arm, k=2, teacher=teacher)
            for arm in budget.READINGS
        ]

    (claim,) = budget.aggregation_claims(one_run("budget", {"n_blocks": 4}, [*counted(right, 0), *counted(60, 1)]))
    assert claim.verdict == verdict
    assert f"at chance on {1 + (right == 60)} of 2" in claim.here


def test_protocols_say_what_rows_and_context_they_leave(untrained: Path) -> None:
    results = Results(dict(run_missing(per_query.jobs("smoke"), untrained / "results", "smoke")))
    assert list(results.runs) == ["per_query/paper-sizes-0", "per_query/paper-sizes-1"]
    third = pytest.approx(per_query.BUDGET / 9)
    for condition in per_query.CONDITIONS:
        for protocol in per_query.PROTOCOLS:
            at: At = {"teacher": 0, "condition": condition, "arm": protocol}
            row, context = results.value("row_budget", **at), results.value("context_budget", **at)
            if protocol in ("attention_max", "attention_mean", "causal"):
                assert row == context == third
            elif protocol in ("per_layer", "layer_averaged"):
                assert row == third
                assert context > 0.5
            else:
                assert row == context == 1.0
            assert results.metric("routed", **at).n == per_query.EXAMPLES["smoke"]
        assert results.metric("routed", arm="dense", teacher=0, condition=condition)
    report, readings = per_query.EXPERIMENT.reports
    (table,) = made(report, per_query.EXPERIMENT, results)
    (varied,) = made(readings, per_query.EXPERIMENT, results)
    assert isinstance(varied, Table)
    assert len(varied.rows) == len(per_query.READINGS)
    for arm in per_query.READINGS:
        at = {"teacher": 0, "condition": MULTIHOP, "arm": arm}
        assert results.value("chosen_budget", **at) >= results.value("context_budget", **at)
    assert isinstance(table, Table)
    assert "3 blocks of 9 (the paper: 3 of 32)" in table.caption
    assert [row[0] for row in table.rows if row][-1] == "Dense teacher"


def test_a_context_that_stays_whole_is_claimed_and_one_that_does_not_fails() -> None:
    found = {"per_layer": 0.996, "layer_averaged": 0.99}
    found |= {arm: 0.98 for arm in per_query.READINGS if arm not in found}
    metrics = [
        Metric(what=what, at={"arm": arm, "condition": MULTIHOP}, value=value, n=100)
        for what in ("context_budget", "chosen_budget")
        for arm, value in found.items()
    ]
    claims = per_query.per_query_claims(one_run("per_query", {}, metrics))
    assert [claim.verdict for claim in claims] == [HOLDS, FAILS]
    assert "mean over heads 0.980 to 0.980" in claims[1].own_choice
    assert {claim.n for claim in claims} == {"1 teachers × 100 examples"}


def test_the_last_row_attends_as_the_answer_row_does(untrained: Path) -> None:
    subject = Labelled.load("smoke", "paper-sizes", 0, "unique", 4)
    batch = subject.batch
    rows = per_query.row_attention(subject.model, batch.first_query(), batch.blocks, "max")
    expected = answer_attention(subject.model, batch.first_query(), batch.blocks).amax(2)  # (B, L, N)
    torch.testing.assert_close(rows[:, :, -1].transpose(0, 1), expected)
    first_block = batch.blocks[0]
    assert bool((rows[:, :, : first_block.stop, 1:] == 0).all()), "a row attends to nothing after it"


def test_a_row_reads_its_own_block_but_it_counts_for_nobody() -> None:
    blocks = (Span(0, 2), Span(2, 4))
    nothing, second = torch.zeros(1, 1, 2, dtype=torch.bool), torch.tensor([[[False, True]]])
    assert not per_query.blocks_read(nothing, blocks, 5).any()
    assert per_query.blocks_read(second, blocks, 5).int().tolist() == [
        [[[0, 0], [0, 0], [0, 0], [0, 0], [0, 1]]],
    ]


def test_a_block_that_only_its_own_rows_chose_is_chosen_and_not_read() -> None:
    blocks = (Span(0, 2), Span(2, 4))
    own = per_query.own_block(blocks, 5).unsqueeze(0)  # every row chooses the block it stands in
    assert per_query.chosen(own, blocks, 5).tolist() == [[True, True]]
    assert not per_query.blocks_read(own, blocks, 5).any()
    later = torch.zeros(1, 5, 2, dtype=torch.bool)
    later[0, 0, 1] = True
    assert not per_query.chosen(later, blocks, 5).any(), "a row cannot choose what stands after it"

"""Budgets and protocols end to end on untrained teachers."""

from pathlib import Path

import pytest
import torch

from keepset.blocks import Span
from keepset.paper import budget, per_query
from keepset.paper.claim import FAILS, HOLDS
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import made
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Figure, Table
from keepset.paper.teachers import teacher_folder
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
    assert list(results.runs) == ["budget/five-task-0", "budget/five-task-1"]
    model, config = load_teacher(teacher_folder("smoke", "five-task", 1))
    for condition in budget.CONDITIONS:
        assert list(results.select("routed", condition=condition, teacher=1)["k"]) == list(range(1, 10))
        batch = evaluation_batch(config, condition, budget.EXAMPLES["smoke"])
        dense = accuracy(model, batch).float().mean()
        assert results.value("routed", condition=condition, k=9, teacher=1) == pytest.approx(float(dense))
    (report,) = budget.EXPERIMENT.reports
    figure, table = made(report, budget.EXPERIMENT, results)
    assert isinstance(figure, Figure)
    assert "Multi-hop" in figure.svg
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["1", "2", "3", "4", "5", "8", "9"]
    assert table.notes[0].startswith("Smoke scale; n = 6 examples per teacher and task, 2 five-task teachers")
    for difference in budget.EXPERIMENT.differences:
        assert "blocks" in difference.here(results)


@pytest.mark.parametrize(("right", "verdict"), [(20, HOLDS), (60, FAILS)])
def test_counting_from_a_part_of_the_context(right: int, verdict: str) -> None:
    shares = [share("routed", n, 100, condition="aggregation", k=k) for k, n in ((1, 10), (2, right), (3, 100))]
    (claim,) = budget.aggregation_claims(one_run("budget", {"n_blocks": 3}, shares))
    assert claim.verdict == verdict
    assert "at k = 2 of 3; full 1.00" in claim.here


def test_protocols_say_what_rows_and_context_they_leave(untrained: Path) -> None:
    results = Results(dict(run_missing(per_query.jobs("smoke"), untrained / "results", "smoke")))
    assert list(results.runs) == ["per_query/five-task-0", "per_query/five-task-1"]
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
    (report,) = per_query.EXPERIMENT.reports
    (table,) = made(report, per_query.EXPERIMENT, results)
    assert isinstance(table, Table)
    assert "3 blocks of 9 (the paper: 3 of 32)" in table.caption
    assert [row[0] for row in table.rows if row][-1] == "Dense teacher"


def test_a_context_that_stays_whole_is_claimed_and_one_that_does_not_fails() -> None:
    found = {"per_layer": 0.996, "layer_averaged": 0.99}
    metrics = [
        Metric(what="context_budget", at={"arm": arm, "condition": "multihop"}, value=value, n=100)
        for arm, value in found.items()
    ]
    claims = per_query.per_query_claims(one_run("per_query", {}, metrics))
    assert [claim.verdict for claim in claims] == [HOLDS, FAILS]
    assert {claim.n for claim in claims} == {"1 teachers × 100 examples"}


def test_the_last_row_attends_as_the_answer_row_does(untrained: Path) -> None:
    subject = Labelled.load("smoke", "five-task", 0, "unique", 4)
    batch = subject.batch
    rows = per_query.row_attention(subject.model, batch.first_query(), batch.blocks)
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

"""Who reads a shuffled chain: counted by where records stand, and cut where it says."""

from pathlib import Path

import pytest
import torch

from keepset.paper import hardened_reading
from keepset.paper.experiment import run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import made
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks


def test_a_record_is_told_by_whether_it_stands_before_the_one_that_names_it() -> None:
    chain = torch.tensor([[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]])
    recall = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 1, 0]]).bool()
    found = {
        (metric.what, *(metric.at.get(name) for name in ("record", "stands"))): (metric.value, metric.n)
        for metric in hardened_reading.placed_recall(recall, chain, "trace")
    }
    assert found == {
        ("recall", 1, "before"): (0.5, 2),
        ("recall", 1, "after"): (1.0, 2),
        ("recall", 2, "before"): (0.0, 2),
        ("recall", 2, "after"): (0.5, 2),
        ("whole_in_order", None, None): (1.0, 1),
    }


def test_only_the_rows_that_are_named_may_read_the_value(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Labelled.load("smoke", "hardened", 0, hardened_reading.CONDITION, 6)
    chain = chain_blocks(subject.batch)
    context = subject.batch.context_tokens
    tables: list[torch.Tensor] = []

    def answered(model: object, tokens: torch.Tensor, blocks: object, visible: torch.Tensor) -> torch.Tensor:
        tables.append(visible)
        return torch.nn.functional.one_hot(subject.batch.answers[:, 0], 10_000)

    monkeypatch.setattr(hardened_reading, "answer_logits", answered)
    metrics = hardened_reading.read_by(subject, chain)
    assert all(metric.value == 1 for metric in metrics)
    assert sum(metric.n for metric in metrics) == 2 * 6, "every example once per reader"
    query, records = tables
    for i, value in enumerate(chain[:, -1].tolist()):
        assert not query[i, :context, value].any()
        assert query[i, context:, value].all()
        assert records[i, :context, value].all()
        assert not records[i, context:, value].any()
    hidden = (~query).sum() + (~records).sum()
    assert int(hidden) == 6 * query.shape[1], "nothing else is hidden"


def test_every_hardened_teacher_is_asked(untrained: Path) -> None:
    experiment = hardened_reading.EXPERIMENT
    results = Results(dict(run_missing(experiment.jobs("smoke"), untrained / "results", "smoke")))
    places, readers = (table for report in experiment.reports for table in made(report, experiment, results))
    teachers = [f"{mixture}-{seed}" for mixture in ("hardened-pointers-first", "hardened") for seed in (0, 1)]
    assert [row[0] for row in readers.rows] == teachers
    assert [row[0] for row in places.rows] == [name for name in teachers for _ in hardened_reading.SELECTIONS]
    assert hardened_reading.if_any(results, "recall", selection="rollout", mixture="hardened", teacher=0) == "–"
    assert hardened_reading.read_before(results, "hardened", 1).startswith("learned from chains value first: attention")

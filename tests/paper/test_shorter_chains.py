"""Contexts with fewer records: the same teachers, the same question."""

from pathlib import Path

import torch

from keepset.paper import shorter_chains, training_problem
from keepset.paper.experiment import run_missing
from keepset.paper.report import made
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table
from keepset.paper.testbed.teachers.presets import small


def test_every_teacher_is_asked_at_the_lengths_it_knows(untrained: Path) -> None:
    results = Results(dict(run_missing(shorter_chains.jobs("smoke"), untrained / "results", "smoke")))
    assert list(results.runs) == [f"shorter_chains/{m}-{t}" for m in shorter_chains.MIXTURES for t in (0, 1)]
    at = {"mixture": shorter_chains.FIVE_TASK, "teacher": 1, "length": 8}
    assert results.coordinates("length") == [8], "a smoke teacher has nine blocks"
    assert 0 <= results.value("routed", **at) <= results.value("dense", **at) + 1
    assert results.metric("recall", record=2, **at).n == shorter_chains.EXAMPLES["smoke"]
    (table,) = made(shorter_chains.EXPERIMENT.reports[0], shorter_chains.EXPERIMENT, results)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows if row] == [
        "paper-sizes-0",
        "paper-sizes-1",
        "pointers-first-0",
        "pointers-first-1",
    ]
    assert all(row[2:4] == ("", "") for row in table.rows if row), "16 and 32 records are not asked of them"
    said = training_problem.other_attention(results)
    assert said.startswith("middle held by the same teachers in contexts of 8 records: ")


def test_lengths_end_where_teachers_have_learned() -> None:
    longest = {mixture: small(mixture, 0).n_blocks for mixture in shorter_chains.MIXTURES}
    assert longest == {"paper-sizes": shorter_chains.LENGTHS[-1], "pointers-first": shorter_chains.LENGTHS[-2]}


def test_a_record_that_is_kept_is_recalled() -> None:
    kept = torch.tensor([[True, False, True, True], [True, True, False, True]])
    chain = torch.tensor([[0, 1, 2], [0, 1, 3]])

    def here(what: str, found: int, **at: int) -> object:
        return share(what, found, 2, **at)

    assert [metric.value for metric in shorter_chains.recalls(here, kept, chain)] == [1.0, 0.5, 1.0]

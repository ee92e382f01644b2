"""Whose end is named: told from the tokens, on every mixture."""

from pathlib import Path

import pytest
import torch

from keepset.blocks import Example
from keepset.paper import following
from keepset.paper.claim import FAILS
from keepset.paper.experiment import run_missing
from keepset.paper.report import made
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.presets import smoke

CONFIG = smoke("pointers-first", 0)


@pytest.fixture(scope="module")
def example() -> Example:
    condition = "multihop_pointers_first_chains"
    return sample_condition(condition, 3, 1, CONFIG.n_blocks, CONFIG.block_width, CONFIG.vocabulary).example(0)


def test_every_value_of_a_context_is_told(example: Example) -> None:
    """Nine records are three chains: three ends, and no value beside them."""
    values = torch.unique(example.tokens).tolist()
    whose = {value: following.whose_end(example, value, CONFIG.vocabulary) for value in values}
    (answer,) = example.answer
    assert whose.pop(answer) == "asked"
    assert 1 <= list(whose.values()).count("another") <= 2
    assert set(whose.values()) == {"another", "none"}


def test_every_teacher_names_something(untrained: Path) -> None:
    results = Results(dict(run_missing(following.jobs("smoke"), untrained / "results", "smoke")))
    assert len(results.runs) == 2 * len(following.CONDITIONS)
    for mixture, conditions in following.CONDITIONS.items():
        for condition in conditions:
            named = results.select("named", mixture=mixture, teacher=1, condition=condition)
            assert sum(named["value"]) == pytest.approx(1)
    (table,) = made(following.EXPERIMENT.reports[0], following.EXPERIMENT, results)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows if row][:2] == ["paper-sizes-0", "paper-sizes-1"]
    (claim,) = following.following_claims(results)
    assert (claim.n, claim.verdict) == ("2 teachers × 6 examples", FAILS)
    others = {name: run for name, run in results.runs.items() if "five-task" in name}
    assert not following.following_claims(Results(others)), "of those that learned from one chain alone"

"""Runs of one experiment by several workers: the same results, each saved once."""

from pathlib import Path

import pytest

from keepset.jobs import engines
from keepset.paper.budget import jobs
from keepset.paper.experiment import finished
from keepset.paper.parallel import run_missing_together
from keepset.paper.result import RunResult
from tests.background import ForkedProcesses


def numbers(result: RunResult) -> dict[str, object]:
    return result.model_dump(exclude={"seconds"})


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_missing_is_run_once(untrained: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "Processes", ForkedProcesses)
    every = jobs("smoke")
    results = untrained / "results"
    found = dict(run_missing_together("budget", every, results, "smoke", workers))
    assert found.keys() == every.keys()
    assert {name: numbers(run) for name, run in finished(every, results, "smoke").items()} == {
        name: numbers(run) for name, run in found.items()
    }
    assert list(run_missing_together("budget", every, results, "smoke", workers)) == []

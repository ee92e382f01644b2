"""Labelling under abuse, in small: everything really runs, in forks instead of fresh processes."""

import random
from pathlib import Path

import pytest

from keepset.jobs import engines
from keepset.paper.bench import reliability
from keepset.paper.bench.reliability.damage import fuzzed
from keepset.paper.bench.reliability.folders import compare, write_rows
from keepset.paper.bench.reliability.kills import run_job
from keepset.paper.bench.reliability.load import simulated_seconds
from keepset.paper.claim import FAILS, HOLDS
from keepset.paper.experiment import run_missing
from keepset.paper.result import Metric
from keepset.paper.results import Results, read_results
from tests.background import ForkedProcesses, in_own_fork

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    wanted = ("kills-1", "flips", "fuzz", "memory", "throughput")
    jobs = {name: job for name, job in reliability.jobs("smoke").items() if name.endswith(wanted)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reliability, "in_own_process", in_own_fork)
        patch.setattr(engines, "Processes", ForkedProcesses)
        assert len(list(run_missing(jobs, folder, "smoke"))) == len(wanted)
    return read_results(folder, "smoke")


def test_nothing_is_lost_doubled_or_different(written: Results) -> None:
    for what in ("lost", "twice", "different", "files"):
        assert written.value(what, run="kills-1") == 0
    assert written.value("kills", run="kills-1", of="writer") == 3
    assert written.value("lost", run="fuzz") == written.value("twice", run="fuzz") == 0
    assert 0 < written.value("rejected", run="fuzz") < 60
    assert written.value("refused", run="flips") == 10


def test_the_tables_and_claims_follow_the_results(written: Results) -> None:
    table = reliability.reliability_table(written)
    assert table.rows[0][0] == "kills: 3 of a writer"
    assert table.rows[0][1].endswith("jobs, 1 worker")
    (table,) = reliability.load_table(written)
    assert len(table.rows) == 12
    assert reliability.load_table(Results({"reliability/flips": written.runs["reliability/flips"]})) == []
    assert {claim.verdict for claim in reliability.reliability_claims(written)} == {HOLDS}
    flips = written.runs["reliability/flips"]
    worse = flips.model_copy(update={"metrics": (*flips.metrics[:2], Metric(what="different", value=1, n=10))})
    verdicts = [c.verdict for c in reliability.reliability_claims(Results(written.runs | {"reliability/flips": worse}))]
    assert verdicts[-1] == FAILS


def test_differences_are_found(tmp_path: Path) -> None:
    """Else nothing above means anything. Whole groups: a row has the last digits of its neighbours."""
    for name, n in (("whole", 32), ("out", 24)):
        run_job(write_rows(tmp_path / f"{name}.jsonl", n), tmp_path / name, 1)
    found = compare(tmp_path / "out", tmp_path / "whole")
    assert (found.lost, found.twice, found.different) == (8, 0, 0)
    assert found.files > 0


def test_fuzzed_rows_are_never_blank() -> None:
    rng = random.Random(0)
    assert all(fuzzed(i, rng).strip() and b"\n" not in fuzzed(i, rng) for i in range(500))


def test_the_simulation_is_bound_by_workers_or_by_the_writer() -> None:
    assert simulated_seconds(1, 800, 1.0, 0.0) == pytest.approx(800)
    assert simulated_seconds(10, 800, 1.0, 0.0) == pytest.approx(80)
    assert simulated_seconds(1_000, 80_000, 1.0, 0.01) == pytest.approx(800, rel=0.05)

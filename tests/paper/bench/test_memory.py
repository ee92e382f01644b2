"""Peak memory on a model that costs nothing: every process really runs, a fork, and each thing is a file of its own."""

import pytest

from keepset.paper.bench import memory as memory_bench
from keepset.paper.bench.memory import memory_table
from keepset.paper.experiment import run_missing
from keepset.paper.result import RunResult
from keepset.paper.results import Results, read_results
from keepset.policies import POLICIES
from keepset.readouts import READOUTS
from tests.background import in_own_fork


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The effects, a readout and a policy, as they come from disk."""
    folder = tmp_path_factory.mktemp("results")
    wanted = ("effects", "readout-saliency", "policy-kvzip")
    jobs = {name: job for name, job in memory_bench.jobs("smoke").items() if name.endswith(wanted)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench, "in_own_process", in_own_fork)
        assert len(list(run_missing(jobs, folder, "smoke"))) == len(wanted)
    return read_results(folder, "smoke")


def test_each_is_measured_in_a_process_of_its_own(written: Results) -> None:
    for run in written.runs.values():
        peak, before = (written.value(what, **run.at) for what in ("peak_bytes", "peak_bytes_before"))
        assert peak >= before > 10_000_000
        assert written.value("seconds", **run.at) > 0
    effects = written.run(kind="effects")
    assert effects.counts["effects"] == 2 * effects.config["blocks"]
    assert effects.counts["tokens_computed"] > effects.config["tokens"]
    assert written.run(kind="policy", policy="kvzip").config["tokens"] < effects.config["tokens"]


def test_every_readout_and_policy_is_a_file() -> None:
    names = list(memory_bench.jobs("small"))
    assert names[0] == "memory/effects"
    assert {name for name in names if "/readout-" in name} == {f"memory/readout-{name}" for name in READOUTS}
    measured = {name.removeprefix("memory/policy-") for name in names if "/policy-" in name}
    assert measured | {*memory_bench.READ_AS, *memory_bench.BLIND} == set(POLICIES)
    assert set(memory_bench.READ_AS.values()) < set(READOUTS)


def test_the_table_tells_which_peaks_were_measured_together(written: Results) -> None:
    table = memory_table(written)
    assert [row[0] for row in table.rows if row] == ["all effects of 4 blocks", "input_saliency", "kvzip"]
    assert "Each in a process of its own." in table.notes[0]
    saliency = written.runs["memory/readout-saliency"]
    together = written.runs | {"memory/readout-trace": shared(saliency, "trace")}
    assert "a peak never falls" in memory_table(Results(together)).notes[0]
    assert "input_saliency: in a process of its own." in memory_table(Results(together)).notes[0]


def shared(run: RunResult, name: str) -> RunResult:
    """A readout as it was measured before each had a process."""
    config = run.config | {"split_from": "bench/memory-readouts.json", "place": 0}
    return run.model_copy(update={"at": {"kind": "readout", "readout": name}, "config": config})

"""The routers' benchmark on the smoke scale: what it measures and writes, never how long it takes."""

from pathlib import Path

import torch

from keepset.paper.bench import router as router_bench
from keepset.paper.bench.timing import QUARTILES
from keepset.paper.experiment import run_missing
from keepset.paper.results import read_results


def test_every_side_is_measured_at_every_length(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    assert [name for name, _ in run_missing(router_bench.jobs("smoke"), tmp_path, "smoke")] == ["router/five-task"]
    assert torch.get_num_threads() == threads
    results = read_results(tmp_path, "smoke")
    run = results.run(mixture="five-task")
    assert run.config["n_blocks"] == [9, 18, 36]
    for side in ("pooling", "chain", "teacher"):
        assert run.counts[f"{side}_parameters"] > 0
        for what, at in (("growth", {}), *(("seconds", {"n_blocks": n}) for n in (9, 18, 36))):
            low, middle, high = (results.metric(what, side=side, quantile=quantile, **at) for quantile in QUARTILES)
            assert 0 < low.value <= middle.value <= high.value
            assert middle.n == router_bench.ROUNDS["smoke"]
    assert results.coordinates("side", "share_of_teacher") == ["pooling", "chain"]
    table = router_bench.router_table(results)
    assert table.name == "router-bench"
    assert len([row for row in table.rows if row]) == 9
    assert "from 9 to 36 blocks" in table.caption
    assert table.notes[0].startswith("Smoke scale; 2 rounds")
    (difference,) = router_bench.EXPERIMENT.differences
    assert difference.here(results).endswith("from 9 to 36 blocks")

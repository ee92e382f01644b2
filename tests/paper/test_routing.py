"""The routing experiment end to end on untrained teachers."""

from pathlib import Path

import pytest

from keepset.paper import routing
from keepset.paper.experiment import run_missing
from keepset.paper.report import render_reports
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher


def test_every_source_routes_every_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        config = smoke("single-hop", seed)
        save_teacher(build_teacher(config), config, tmp_path / "teachers" / "smoke" / f"single-hop-{seed}")
    results = dict(run_missing(routing.jobs("smoke"), tmp_path / "results", "small"))
    assert list(results) == ["routing/source-0", "routing/source-1"]
    names = {metric.name for metric in results["routing/source-1"].metrics}
    arms = {"dense": [""], "random": [""], "imitation": ["_r0", "_r1"], "causal": ["_r0", "_r1"]}
    assert names == {
        f"{arm}_{condition}_t{teacher}{end}"
        for arm, ends in arms.items()
        for condition in routing.CONDITIONS
        for teacher in range(2)
        for end in ends
    }
    rendered = render_reports(tmp_path / "results")
    assert {name.split(".")[0] for name in rendered} == {
        "tab-routing",
        "tab-app-routing",
        "tab-app-own-teacher",
        "tab-app-transfer",
        "fig-gap",
        "README",
        "orderings",
        "tables",
    }

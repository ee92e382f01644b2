"""Ablation and tuning guard end to end on untrained teachers."""

from pathlib import Path

import pytest
import torch

from keepset.paper import ablation, guard
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import Experiment, run_missing
from keepset.paper.report import made
from keepset.paper.result import Coordinate
from keepset.paper.results import Results
from keepset.paper.router_tables import block_attention
from keepset.paper.table import Table
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.teachers.teacher import load_teacher


def tables(experiment: Experiment, results: Results) -> dict[str, Table]:
    found = [item for report in experiment.reports for item in made(report, experiment, results)]
    return {item.name: item for item in found if isinstance(item, Table)}


def places(results: Results, names: list[str], **at: Coordinate) -> set[tuple[Coordinate, ...]]:
    return {tuple(row) for row in results.select("routed", **at)[names].to_numpy()}


def test_every_label_is_routed_under_its_losses(untrained: Path) -> None:
    results = Results(dict(run_missing(ablation.jobs("smoke"), untrained / "results", "smoke")))
    assert list(results.runs) == [
        "ablation/unrouted",
        "ablation/attention-kl",
        "ablation/attention-sparse_kl",
        "ablation/attention-coverage",
        "ablation/all_positions-kl",
        "ablation/causal-coverage",
        "ablation/causal-kl",
    ]
    names = ["condition", "teacher", "router_seed"]
    everywhere = {(c, teacher, seed) for c in ablation.CONDITIONS for teacher in (0, 1) for seed in (0, 1)}
    for label, loss in ablation.ARMS:
        assert places(results, names, label=label, loss=loss) == everywhere
    for arm in ("dense", "random"):
        assert places(results, names[:2], arm=arm) == {place[:2] for place in everywhere}
    found = tables(ablation.EXPERIMENT, results)
    assert list(found) == ["tab-ablation", "tab-app-ablation"]
    assert [row[:2] for row in found["tab-ablation"].rows][3:5] == [
        ("Attention (all positions)", "KL"),
        ("Causal evidence", "coverage"),
    ]
    assert found["tab-ablation"].notes == (
        "Smoke scale; n = 6 examples per teacher and condition, 2 teachers, 2 router seeds.",
        "Kept: 10 % of the blocks, at least 3, because 10 % of the 9 blocks of multi-hop are one and a chain has three "
        "records; the paper keeps four of 32 there.",
    )
    *orderings, pooling = ablation.label_claims(results)
    assert all(claim.n.startswith("2 teachers × 2 routers") for claim in orderings)
    assert pooling.n == "6 labels × 4 routed teachers; 6 examples"
    assert ablation.pooling_best(results).startswith("at most 0.")


def test_targets_of_the_ablation(untrained: Path) -> None:
    model, config = load_teacher(teacher_folder("smoke", "five-task", 0))
    arms = ablation.supervisions(k=2)
    assert set(arms) == set(ablation.ARMS)
    batch = evaluation_batch(config, "duplicate", 8)
    with torch.no_grad():
        targets = {arm: label(model, batch) for arm, (_, label) in arms.items()}
        attention = block_attention(model, batch)
    for row, (one_set,) in zip(attention, targets["attention", "coverage"], strict=True):
        assert one_set.dtype == torch.bool
        assert set(one_set.nonzero().flatten().tolist()) == set(row.topk(2).indices.tolist())
    assert torch.equal(targets["causal", "coverage"], batch.family)
    copies = batch.family.any(1)
    assert bool((copies.sum(1) == 2).all())
    assert torch.equal(targets["causal", "kl"], copies / 2)
    assert torch.equal(targets["attention", "kl"], targets["attention", "sparse_kl"])
    assert not torch.allclose(targets["attention", "kl"], targets["all_positions", "kl"])


def test_both_arms_are_retrained_at_every_retuning(untrained: Path) -> None:
    found = dict(run_missing(guard.jobs("smoke"), untrained / "results", "smoke"))
    retunings = ("lr-3e-4", "lr-3e-3", "steps-3x", "max-heads", "table-10x")
    assert list(found) == [f"guard/{name}-{arm}" for name in retunings for arm in ("imitation", "causal")]
    trained = {(run.config["learning_rate"], run.counts["steps"], run.counts["table"]) for run in found.values()}
    assert trained == {(3e-4, 10, 128), (3e-3, 10, 128), (1e-3, 30, 128), (1e-3, 10, 128), (1e-3, 10, 1_280)}
    results = Results(found)
    everywhere = {(c, teacher, seed) for c in guard.CONDITIONS for teacher in (0, 1) for seed in (0, 1)}
    for name in retunings:
        for arm in ("imitation", "causal"):
            assert places(results, ["condition", "teacher", "router_seed"], retuning=name, arm=arm) == everywhere
    table = tables(guard.EXPERIMENT, results)["tab-app-guard"]
    assert [row[0] for row in table.rows] == [guard.RETUNINGS[name].title for name in retunings for _ in range(2)]


def test_a_number_that_is_missing_is_named(untrained: Path) -> None:
    jobs = guard.jobs("smoke")
    name = "guard/lr-3e-4-causal"
    results = Results(dict(run_missing({name: jobs[name]}, untrained / "results", "smoke")))
    with pytest.raises(KeyError, match=r"no number 'routed' of teachers .0, 1. at unique_4x, .*imitation"):
        guard.guard_table(results)

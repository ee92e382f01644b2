"""Chain experiments end to end on untrained teachers: every metric a report asks for is there."""

from pathlib import Path

import torch

from keepset.labels import FoundFamily
from keepset.paper import chains, family_routing, hardened, oracles, recovered_routing
from keepset.paper.experiment import Jobs, run_missing
from keepset.paper.report import render_reports
from keepset.paper.testbed.routers import renamed_stream, router_input
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.oracle import read_records
from keepset.paper.testbed.teachers.presets import smoke
from keepset.routers import table_stream


def metric_names(jobs: Jobs, folder: Path) -> dict[str, set[str]]:
    done = run_missing(jobs, folder / "results", "small")
    return {name: {metric.name for metric in result.metrics} for name, result in done}


def test_chains(untrained: Path) -> None:
    names = metric_names(chains.jobs("smoke"), untrained)
    assert list(names) == ["chains/five-task-0", "chains/five-task-1"]
    for arm in chains.ARMS:
        for what in ("", "_chain", "_record0", "_record1", "_record2"):
            assert {f"{arm}_multihop{what}_r0", f"{arm}_multihop{what}_r1"} <= names["chains/five-task-1"]


def test_hardened_chains_route_every_teacher(untrained: Path) -> None:
    (names,) = metric_names(hardened.jobs("smoke"), untrained).values()
    for teacher in ("hardened-0", "hardened-1", "five-task-0", "five-task-1"):
        assert {f"{teacher}_dense_multihop_3hop", f"{teacher}_causal_multihop_hardened_r1"} <= names
    assert "hardened-0_causal_multihop_3hop_record3_r0" in names


def test_oracles(untrained: Path) -> None:
    names = metric_names(oracles.jobs("smoke"), untrained)["oracles/five-task-0"]
    selections = ("attention_max", "attention_mean", "rollout", "trace", "ablation", "annotated", "random")
    assert {f"{name}_k{k}" for name in selections for k in oracles.BUDGETS} <= names
    assert {"attention_layer0_k3", "trace_obsolete", "annotated_obsolete"} <= names


def test_reports_of_chains(untrained: Path) -> None:
    for jobs in (chains.jobs, oracles.jobs, hardened.jobs):
        metric_names(jobs("smoke"), untrained)
    rendered = render_reports(untrained / "results")
    tables = ("tab-chain", "tab-chain-per-teacher", "tab-budget-readouts", "tab-trace-supervision", "hardened-chains")
    assert {f"{name}.md" for name in tables} <= set(rendered)


def test_recovered_labels_train_routers(untrained: Path) -> None:
    recovered_routing.recovered_table.cache_clear()
    names = metric_names(recovered_routing.jobs("smoke"), untrained)
    assert [name.split("/")[1] for name in names] == list(recovered_routing.ARMS)
    expected = {
        f"{what}_r{seed}" for what in ("unique", "latest_write", "multihop", "multihop_chain") for seed in (0, 1)
    }
    assert all(found == expected for found in names.values())
    assert render_reports(untrained / "results")["tab-recovered-routing.md"].count("Top-k delta") == 2


def test_families_train_routers(untrained: Path) -> None:
    family_routing.labelled_table.cache_clear()
    names = metric_names(family_routing.jobs("smoke"), untrained)
    assert [name.split("/")[1] for name in names] == list(family_routing.ARMS)
    expected = {f"{what}_{which}" for what in ("routed", "nonce", "chain") for which in ("r0", "r1", "random")}
    assert all(found == expected for found in names.values())
    assert "Found families" in render_reports(untrained / "results")["family-routing.md"]


def test_a_family_becomes_its_smallest_sets() -> None:
    found = [
        FoundFamily(frozenset({frozenset({0, 1}), frozenset({2, 3}), frozenset({1, 2, 3})}), True, 9),
        FoundFamily(frozenset(), True, 1),
    ]
    target = family_routing.family_target(found, 4)
    assert target.tolist() == [[[True, True, False, False], [False, False, True, True]], [[False] * 4] * 2]


def test_renaming_keeps_the_structure_of_every_example() -> None:
    config = smoke("five-task", 0)
    batch = sample_condition("multihop", 5, 8, config.n_blocks, config.block_width, config.vocabulary)
    tokens = router_input(batch)
    plain = table_stream(tokens, {"arm": batch.family}, run=0, batch=8)
    renamed = renamed_stream(plain, config.vocabulary, run=0)
    before, targets = plain(3)
    after, same_targets = renamed(3)
    assert torch.equal(targets["arm"], same_targets["arm"])
    assert not torch.equal(before, after)
    assert torch.equal(after, renamed(3)[0])
    for old, new in zip(before, after, strict=True):
        pairs = set(zip(old.tolist(), new.tolist(), strict=True))
        assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs), "a renaming is one to one"
        kinds = [
            [type(r.content) for r in read_records(row, batch.blocks, config.vocabulary) if r] for row in (old, new)
        ]
        assert kinds[0] == kinds[1], "pointers stay pointers"

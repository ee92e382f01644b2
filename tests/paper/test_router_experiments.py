"""Ablation, tuning guard, budgets, protocols and the routers' benchmark end to end on untrained teachers."""

from pathlib import Path

import pytest
import torch

from keepset.blocks import Span
from keepset.paper import ablation, budget, guard, per_query
from keepset.paper.bench import router as router_bench
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import run_missing
from keepset.paper.labelled import Labelled
from keepset.paper.report import render_reports
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import accuracy, build_teacher, load_teacher, save_teacher
from keepset.readouts import answer_attention

TEACHERS = range(2)
ROUTERS = range(2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with untrained teachers of both mixtures."""
    folder = tmp_path_factory.mktemp("root")
    for mixture in ("single-hop", "five-task"):
        for seed in TEACHERS:
            config = smoke(mixture, seed)
            save_teacher(build_teacher(config), config, folder / "teachers" / "smoke" / f"{mixture}-{seed}")
    return folder


@pytest.fixture(autouse=True)
def at_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def routed_names(arms: list[str], conditions: tuple[str, ...]) -> set[str]:
    places = [f"{condition}_t{teacher}" for condition in conditions for teacher in TEACHERS]
    return {f"{arm}_{place}" for arm in ("dense", "random") for place in places} | {
        f"{arm}_{place}_r{seed}" for arm in arms for place in places for seed in ROUTERS
    }


def rendered(folder: Path) -> set[str]:
    return {name.split(".")[0] for name in render_reports(folder / "results")} - {"tables", "orderings", "README"}


def test_every_label_is_routed_under_every_loss(tmp_path: Path) -> None:
    results = dict(run_missing(ablation.jobs("smoke"), tmp_path / "results", "small"))
    assert list(results) == ["ablation/labels-0"]
    arms = [
        "attention_kl",
        "attention_sparse_kl",
        "attention_coverage",
        "all_positions_kl",
        "causal_coverage",
        "causal_kl",
    ]
    assert {m.name for m in results["ablation/labels-0"].metrics} == routed_names(arms, ablation.CONDITIONS)
    assert rendered(tmp_path) == {"tab-ablation", "tab-app-ablation"}


def test_targets_of_the_ablation() -> None:
    labels = {
        "attention": torch.tensor([[0.5, 0.1, 0.3, 0.1]]),
        "all_positions": torch.tensor([[0.1, 0.2, 0.3, 0.4]]),
        "causal": torch.tensor([[[True, False, False, False], [False, False, True, False]]]),
    }
    targets = {arm: target for arm, (_, target) in ablation.arms(labels, k=2).items()}
    assert targets["attention_coverage"].int().tolist() == [[[1, 0, 1, 0]]]
    assert targets["causal_kl"].tolist() == [[0.5, 0.0, 0.5, 0.0]]
    assert targets["attention_kl"] is targets["attention_sparse_kl"]


def test_both_arms_are_retrained_at_every_retuning(tmp_path: Path) -> None:
    results = dict(run_missing(guard.jobs("smoke"), tmp_path / "results", "small"))
    assert list(results) == ["guard/lr-3e-4", "guard/lr-3e-3", "guard/steps-3x"]
    assert {r.config["learning_rate"]: r.counts["steps"] for r in results.values()} == {3e-4: 10, 3e-3: 10, 1e-3: 30}
    for result in results.values():
        assert {m.name for m in result.metrics} == routed_names(["imitation", "causal"], guard.CONDITIONS)
    assert rendered(tmp_path) == {"tab-app-guard"}


def test_the_full_budget_is_the_dense_teacher(root: Path, tmp_path: Path) -> None:
    results = dict(run_missing(budget.jobs("smoke"), tmp_path / "results", "small"))
    assert list(results) == ["budget/five-task-0", "budget/five-task-1"]
    result = results["budget/five-task-1"]
    assert {m.name for m in result.metrics} == {f"{c}_k{k}" for c in budget.CONDITIONS for k in range(1, 10)}
    model, config = load_teacher(root / "teachers" / "smoke" / "five-task-1")
    for condition in budget.CONDITIONS:
        batch = evaluation_batch(config, condition, budget.EXAMPLES["smoke"])
        assert result.metric(f"{condition}_k9").value == accuracy(model, batch).float().mean()
    assert rendered(tmp_path) == {"budget", "fig-budget"}


def test_protocols_say_what_rows_and_context_they_leave(tmp_path: Path) -> None:
    results = dict(run_missing(per_query.jobs("smoke"), tmp_path / "results", "small"))
    assert list(results) == ["per_query/five-task-0", "per_query/five-task-1"]
    result = results["per_query/five-task-0"]
    third = pytest.approx(per_query.BUDGET / 9)
    for condition in per_query.CONDITIONS:
        for protocol in ("attention_max", "attention_mean", "causal"):
            assert result.metric(f"{protocol}_{condition}_row").value == third
            assert result.metric(f"{protocol}_{condition}_context").value == third
        for protocol in ("per_layer", "layer_averaged"):
            assert result.metric(f"{protocol}_{condition}_row").value == third
            assert result.metric(f"{protocol}_{condition}_context").value > 0.5
        assert result.metric(f"dense_prefill_{condition}_row").value == 1.0
        assert result.metric(f"dense_prefill_{condition}_context").value == 1.0
        assert {f"dense_{condition}", f"causal_{condition}"} < {metric.name for metric in result.metrics}
    assert rendered(tmp_path) == {"tab-per-query"}


def test_the_last_row_attends_as_the_answer_row_does(root: Path) -> None:
    model, _ = load_teacher(root / "teachers" / "smoke" / "five-task-0")
    batch = Labelled.load("smoke", "five-task", 0, "unique", 4).batch
    rows = per_query.row_attention(model, batch.first_query(), batch.blocks)
    expected = answer_attention(model, batch.first_query(), batch.blocks).amax(2)  # (B, L, N)
    torch.testing.assert_close(rows[:, :, -1].transpose(0, 1), expected)
    first_block = batch.blocks[0]
    assert bool((rows[:, :, : first_block.stop, 1:] == 0).all()), "a row attends to nothing after it"


def test_a_row_reads_its_own_block_but_it_counts_for_nobody() -> None:
    blocks = (Span(0, 2), Span(2, 4))
    nothing, second = torch.zeros(1, 1, 2, dtype=torch.bool), torch.tensor([[[False, True]]])
    assert not per_query.blocks_read(nothing, blocks, 5).any()
    assert per_query.blocks_read(second, blocks, 5).int().tolist() == [
        [[[0, 0], [0, 0], [0, 0], [0, 0], [0, 1]]],
    ]


def test_the_router_benchmark_measures_every_side_at_every_length(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    results = dict(run_missing(router_bench.jobs("smoke"), tmp_path / "results", "small"))
    assert torch.get_num_threads() == threads
    (result,) = results.values()
    assert result.config["n_blocks"] == [9, 18, 36]
    for side in ("pooling", "chain", "teacher"):
        assert result.counts[f"{side}_parameters"] > 0
        for name in (f"{side}_growth", *(f"{side}_n{n}_seconds" for n in (9, 18, 36))):
            assert 0 < result.metric(f"{name}_q25").value <= result.metric(name).value
            assert result.metric(name).n == router_bench.ROUNDS["smoke"]
    names = {metric.name for metric in result.metrics}
    assert {"pooling_n9_share", "chain_n36_share"} < names
    assert "teacher_n9_share" not in names
    assert rendered(tmp_path) == {"router-bench"}

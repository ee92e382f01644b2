"""The benchmark's code path on a model that costs nothing: what it measures and writes, never how long it takes."""

import os
import sys

import pytest
import torch

from keepset.paper.bench.models import loaded
from keepset.paper.bench.peak import in_own_process
from keepset.paper.bench.prune import run as prune_bench
from keepset.paper.bench.prune.run import DENSE, SIDES, Setting, Side
from keepset.paper.bench.prune.tables import prune_table
from keepset.paper.bench.timing import MEDIAN, QUARTILES
from keepset.paper.experiment import run_missing
from keepset.paper.results import Results, read_results
from tests.background import in_own_fork

PRUNED = [side for side in SIDES.values() if side != DENSE]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The smoke scale as it comes from disk, without a process per side."""
    folder = tmp_path_factory.mktemp("results")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune_bench, "memory_of", lambda setting, side: (150 if side == "dense" else 120, 100))
        jobs = prune_bench.jobs("smoke")
        assert len(list(run_missing(jobs, folder, "smoke"))) == 1
        assert not list(run_missing(jobs, folder, "smoke")), "what exists is not measured again"
    assert torch.get_num_threads() == threads
    written = read_results(folder, "smoke")
    assert list(written.runs) == ["prune/tiny-512"]
    return written


def test_everything_is_measured_on_every_document(written: Results) -> None:
    for side in PRUNED:
        for what, at in (
            *(("seconds_ratio", {"phase": phase}) for phase in ("prefill", "prefill_and_router", "read", "answer")),
            ("kv_bytes_ratio", {}),
            ("tokens_ratio", {}),
        ):
            low, middle, high = (written.metric(what, **side.at, **at, quantile=quantile) for quantile in QUARTILES)
            assert 0 < low.value <= middle.value <= high.value
            assert middle.n == written.run().counts["rounds"] == 2
    for phase in ("prefill", "read", "answer"):
        assert written.value("seconds", side="dense", phase=phase, quantile=MEDIAN) > 0
    assert written.value("seconds_ratio", side="router", quantile=MEDIAN) > 0


def test_the_cache_is_as_small_as_the_budget_and_the_prefix_imply(written: Results) -> None:
    tokens = written.run().config["tokens"]
    assert written.value("tokens", side="dense", quantile=MEDIAN) == tokens
    for side in PRUNED:
        blocks = {0.1: 2, 0.25: 4}[side.budget]  # of 16, rounded up
        assert written.value("tokens", **side.at, quantile=MEDIAN) == tokens - 512 + 32 * blocks
        kept, limit = (written.value(f"{what}_ratio", **side.at, quantile=MEDIAN) for what in ("kv_bytes", "tokens"))
        assert kept == limit


def test_peak_memory_is_told_with_and_without_the_model(written: Results) -> None:
    assert written.value("peak_growth_bytes", side="dense") == 50
    for side in PRUNED:
        assert written.value("peak_bytes_ratio", **side.at) == 0.8
        assert written.value("peak_growth_bytes_ratio", **side.at) == 0.4


def test_peak_memory_is_that_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_bench, "in_own_process", in_own_fork)
    peak, before = prune_bench.memory_of(Setting("tiny", 512, 1), "global/0.1")
    assert peak >= before > 10_000_000


def test_a_fresh_process_is_asked_for_the_last_line_that_a_function_prints() -> None:
    number = in_own_process("its number", "builtins", "exec", "import os; print('loading'); print(os.getpid())")
    assert number not in (os.getpid(), 0)


def test_a_process_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(RuntimeError, match="tiny-512, dense: the process that measures memory failed"):
        prune_bench.memory_of(Setting("tiny", 512, 1), "dense")


def test_every_question_has_the_same_length() -> None:
    _, tokenizer = loaded("tiny")
    for document in prune_bench.bench_documents(tokenizer, Setting("tiny", 512, 3)):
        assert len(prune_bench.question_of(document)) == prune_bench.QUESTION


@torch.inference_mode()
def test_dense_answers_as_the_pruner_does_with_everything_kept() -> None:
    model, tokenizer = loaded("tiny")
    (document,) = prune_bench.bench_documents(tokenizer, Setting("tiny", 512, 1))
    dense, everything = (
        side.prefill(model, document, torch.zeros(len(document.blocks))) for side in (Side(), Side("global", 1.0))
    )
    assert (dense.n_tokens, dense.n_bytes) == (everything.n_tokens, everything.n_bytes)
    question = prune_bench.question_of(document)
    for _ in range(2):  # asked twice: the first question is forgotten
        torch.testing.assert_close(dense.read(question, rows=3), everything.read(question, rows=3))
        dense.forget()
        assert dense.answer(question, 4) == everything.answer(question, 4)
        dense.forget()
    assert dense.n_bytes == everything.n_bytes


def test_jobs_are_one_file_per_model_and_length() -> None:
    assert list(prune_bench.jobs("small")) == [
        *(f"prune/smollm2-135m-instruct-{length}" for length in (1_024, 2_048, 4_096)),
        *(f"prune/qwen2.5-coder-1.5b-instruct-{length}" for length in (1_024, 2_048)),
    ]
    with pytest.raises(ValueError, match="scale: expected one of smoke, small, got 'paper'"):
        prune_bench.jobs("paper")


def test_the_table_has_a_row_per_side_and_says_whether_the_bounds_hold(written: Results) -> None:
    table = prune_table(written)
    assert [row[2] for row in table.rows] == [
        "dense",
        "router, 1 of 2 layers",
        "global, 10 %",
        "global, 25 %",
        "post_prefill, 10 %",
        "post_prefill, 25 %",
    ]
    assert "tiny, 512 tokens, global at 10 %: prefill at most 0.2 × dense" in table.notes[-1]
    assert "keys and values at most 0.12 × dense does not hold" in table.notes[-1], "the prefix alone is more"
    assert table.latex().isascii()

"""Eviction tables on results made in the test: parts pooled by counts, regimes apart, gaps shown as gaps."""

from pathlib import Path

import pytest

from keepset.paper.eviction.figure import scale_figure
from keepset.paper.eviction.orderings import eviction_orderings
from keepset.paper.eviction.pool import pooled
from keepset.paper.eviction.tables import REFERENCE, eviction_tables
from keepset.paper.orderings_report import FAILS, HOLDS, OPEN
from keepset.paper.report import render_reports
from keepset.paper.result import Metric, RunResult, save_result
from keepset.paper.statistics import proportion
from keepset.paper.table import Table

MODEL = "tiny-model"
POLICIES = ("causal_r0", "causal_r1", "causal_r2", "imitation_r0", "h2o", "snapkv", "momentkv", "restkv", "kvzip")


def part(
    number: int,
    metrics: list[Metric],
    task: str = "single",
    length: int = 1_024,
    steps: int = 100,
    model: str = MODEL,
) -> RunResult:
    return RunResult(
        experiment="eviction",
        scale="small",
        command="keepset reproduce eviction",
        config={
            "model": model,
            "task": task,
            "length": length,
            "part": number,
            "blocks": length // 32,
            "train_length": 512,
            "pre_query_documents": 8,
            "query_aware_documents": 4,
        },
        seeds={},
        commit="0" * 40,
        versions={},
        counts={"documents": 10, "steps": steps},
        seconds=1.0,
        metrics=tuple(metrics),
    )


def preserved(policy: str, right: int, n: int, regime: str = "pre_query", condition: str = "single") -> list[Metric]:
    """At 10 % in both modes, ``global`` one worse where it can be."""
    return [
        proportion(f"{condition}/{regime}/{mode}/{policy}/0.1/preserved", max(0, right - worse), n)
        for mode, worse in (("global", 1), ("post_prefill", 0))
    ]


def named(tables: list[Table], name: str) -> Table:
    (found,) = [table for table in tables if table.name == name]
    return found


def cell(table: Table, row: int, column: str) -> str:
    return [row for row in table.rows if row][row][table.columns.index(column)]


def test_parts_are_pooled_by_counts_and_not_by_shares() -> None:
    first = part(0, [proportion("single/dense", 9, 10), *preserved("causal_r0", 9, 9)])
    second = part(1, [proportion("single/dense", 3, 10), *preserved("causal_r0", 0, 3)])
    (pool,) = pooled([first, second])
    assert pool.solved("single") == 12
    share = pool.share("single", "pre_query", "post_prefill", "causal_r0", "0.1")
    assert share == proportion("single/pre_query/post_prefill/causal_r0/0.1/preserved", 9, 12)


def test_a_part_in_which_nothing_was_answered_adds_nothing() -> None:
    first = part(0, [proportion("single/dense", 4, 10), *preserved("h2o", 2, 4)])
    second = part(1, [proportion("single/dense", 0, 10)])
    table = named(eviction_tables([first, second]), f"tab-pq-{MODEL}-1024-post_prefill")
    assert cell(table, 0, "n") == "4"
    assert cell(table, 0, "H2O").startswith("0.50 [0.15–0.85]")


def test_a_cell_has_value_interval_and_the_papers_number_at_the_same_multiple_of_the_training_length() -> None:
    metrics = [proportion("multikey/dense", 10, 10), *preserved("causal_r0", 9, 10, condition="multikey")]
    for length, paper in ((512, ""), (1_024, " (0.84)"), (2_048, " (0.83)"), (4_096, " (0.72)")):
        tables = eviction_tables([part(0, metrics, "multikey", length)])
        table = named(tables, f"tab-pq-{MODEL}-{length}-post_prefill")
        assert cell(table, 0, "causal (seed 0)") == "0.90 [0.60–0.98]" + paper
        assert any("Round brackets" in note for note in table.notes) == bool(paper)
    assert f"{MODEL}: " in table.caption
    assert "4,096 tokens in 128 blocks, 8 × the routers' training length" in table.caption


def test_regimes_have_columns_and_modes_tables_of_their_own() -> None:
    metrics = [proportion("single/dense", 10, 10)]
    metrics += preserved("snapkv", 3, 10) + preserved("snapkv", 9, 10, "query_aware")
    tables = eviction_tables([part(0, metrics)])
    dropped, never_read = (named(tables, f"tab-pq-{MODEL}-1024-{mode}") for mode in ("post_prefill", "global"))
    assert cell(dropped, 0, "SnapKV (context window)").startswith("0.30 ")
    assert cell(never_read, 0, "SnapKV (context window)").startswith("0.20 ")
    assert cell(dropped, 0, REFERENCE).startswith("0.90 ")
    assert any(note.startswith("* reads the question") for note in dropped.notes)
    aware = named(tables, f"tab-qa-{MODEL}")
    assert [row[2] for row in aware.rows] == ["global", "post_prefill"]
    assert cell(aware, 0, "SnapKV").startswith("0.80 ")
    assert cell(aware, 1, "SnapKV").startswith("0.90 ")


def test_what_was_not_run_is_a_dash() -> None:
    results = [part(0, [proportion("single/dense", 5, 10), *preserved("h2o", 2, 5)])]
    tables = eviction_tables(results)
    table = named(tables, f"tab-pq-{MODEL}-1024-global")
    assert [row[1] for row in table.rows] == ["10 %", "25 %", "50 %"]
    assert cell(table, 0, "KVzip") == cell(table, 1, "H2O") == "-"
    assert cell(eviction_orderings(results), 0, "H2O") == "-"
    assert cell(named(tables, f"eviction-dense-{MODEL}"), 0, "fits 10 %") == "-"
    assert not [table for table in tables if table.name == "tab-pq-staleany"], "no control, no table"


def test_a_policy_that_only_some_parts_have_is_refused() -> None:
    first = part(0, [proportion("single/dense", 5, 10), *preserved("h2o", 2, 5)])
    second = part(1, [proportion("single/dense", 6, 10)])
    with pytest.raises(ValueError, match="expected all 11 questions the model answers, got 5"):
        eviction_tables([first, second])


def test_parts_of_other_routers_are_refused() -> None:
    metrics = [proportion("single/dense", 5, 10)]
    with pytest.raises(ValueError, match="tiny-model, 1024 tokens: expected parts run alike"):
        pooled([part(0, metrics), part(1, metrics, steps=50)])


def test_kept_evidence_and_what_it_decides() -> None:
    name = "single/pre_query/{}/h2o/{}"
    metrics = [proportion("single/dense", 10, 10), proportion("single/global_equals_mask", 10, 10)]
    metrics += [proportion(f"single/feasible/{budget}", right, 10) for budget, right in (("0.1", 3), ("0.25", 10))]
    for mode in ("global", "post_prefill"):
        metrics += [proportion(name.format(mode, budget) + "/evidence_kept", 4, 10) for budget in ("0.1", "0.25")]
        metrics.append(proportion(name.format(mode, "0.1") + "/preserved_given_kept", 4, 4))
    metrics.append(proportion(name.format("post_prefill", "0.1") + "/preserved_given_dropped", 3, 6))
    tables = eviction_tables([part(0, metrics)])
    evidence = named(tables, f"eviction-evidence-{MODEL}-1024")
    (h2o,) = [row for row in evidence.rows if row and row[1] == "H2O"]
    assert h2o == (
        *("single needle", "H2O", "10", "0.40 [0.17–0.69]", "0.40 [0.17–0.69]", "-"),
        *("1.00 [0.51–1.00] of 4", "-", "1.00 [0.51–1.00] of 4", "0.50 [0.19–0.81] of 6"),
    )
    dense = named(tables, f"eviction-dense-{MODEL}")
    assert dense.rows == (("single needle", "1,024", "32", "1.00 [0.72–1.00]", "10", "0.30", "1.00", "-", "10 of 10"),)


@pytest.mark.parametrize(
    ("causal", "rival", "verdict"), [(29, 3, HOLDS), (3, 29, FAILS), (20, 19, OPEN), (30, 30, OPEN)]
)
def test_orderings_are_told_from_the_interval(causal: int, rival: int, verdict: str) -> None:
    metrics = [proportion("multikey/dense", 30, 30)]
    metrics += preserved("causal_r0", causal, 30, condition="multikey")
    metrics += preserved("h2o", rival, 30, condition="multikey")
    for mode in ("global", "post_prefill"):
        name = f"multikey/pre_query/{mode}/h2o/0.1/causal_ahead"
        metrics.append(proportion(name, max(0, causal - rival), 30))
    table = eviction_orderings([part(0, metrics, "multikey")])
    for row in (0, 1):
        assert cell(table, row, "H2O").endswith(f"(+0.73) {verdict}")
        assert cell(table, row, "KVzip") == "-"


def test_too_few_questions_settle_nothing_and_tasks_add_up() -> None:
    results = []
    for task, n in (("single", 4), ("multikey", 3)):
        metrics = [proportion(f"{task}/dense", n, n)]
        for mode in ("global", "post_prefill"):
            name = f"{task}/pre_query/{mode}/{{}}/0.1/{{}}"
            metrics.append(proportion(name.format("causal_r0", "preserved"), n, n))
            metrics.append(proportion(name.format("h2o", "preserved"), 0, n))
            metrics.append(proportion(name.format("h2o", "causal_ahead"), n, n))
        results.append(part(0, metrics, task))
    table = eviction_orderings(results)
    for row, (title, n, verdict) in enumerate(
        [("single needle", 4, OPEN), ("multikey", 3, OPEN), ("all tasks", 7, HOLDS)]
    ):
        assert cell(table, row, "Condition") == title
        assert cell(table, row, "n") == str(n)
        assert cell(table, row, "H2O").startswith("+1.00 [+")
        assert cell(table, row, "H2O").endswith(verdict)


def control(length: int) -> RunResult:
    metrics = [proportion(f"{condition}/dense", 8, 10) for condition in ("register_log", "register_log_any")]
    for condition in ("register_log", "register_log_any"):
        for policy in POLICIES:
            metrics += preserved(policy, 6, 8, condition=condition)
    return part(0, metrics, "register_log", length)


def test_the_control_seeds_and_restkv_have_tables_over_all_models() -> None:
    tables = eviction_tables([control(1_024), control(2_048)])
    anything = named(tables, "tab-pq-staleany")
    assert cell(anything, 1, "H2O") == "-", "25 % was not run"
    assert cell(anything, 3, "H2O") == "0.75 [0.41–0.93] (0.25)"
    seeds = named(tables, "tab-pq-seeds")
    assert {row[1] for row in seeds.rows if row} == {"register log", "register log, any query"}
    assert cell(seeds, 1, "seed 1") == "0.75 [0.41–0.93] (0.90)"
    restkv = named(tables, "tab-restkv")
    assert [row[2] for row in restkv.rows if row] == ["1,024"] * 4 + ["2,048"] * 4
    assert cell(restkv, 1, "pre_query, 10 %") == "0.75 [0.41–0.93] (0.15)"
    assert cell(restkv, 1, "query_aware, 10 %") == "-"


def test_the_figure_takes_the_longest_length_that_every_model_has() -> None:
    metrics = [proportion("single/dense", 10, 10), *preserved("causal_r0", 9, 10), *preserved("h2o", 2, 10)]
    results = [part(0, metrics, model=MODEL, length=length) for length in (1_024, 2_048, 4_096)]
    other = [part(0, metrics, model="other-model", length=length) for length in (1_024, 2_048)]
    drawn = scale_figure(results + other)
    assert drawn is not None
    assert "mode global, 2,048 tokens" in drawn
    assert drawn == scale_figure(results + other)
    assert scale_figure([results[2], other[0]]) is None
    assert scale_figure([]) is None


def test_all_of_it_is_rendered(tmp_path: Path) -> None:
    for length in (1_024, 2_048):
        save_result(control(length), tmp_path / "small" / "eviction" / MODEL / f"register_log-{length}-part0.json")
    rendered = render_reports(tmp_path)
    assert {"tab-pq-staleany.md", "eviction-orderings.tex", "fig-eviction-scale.svg"} <= set(rendered)
    assert all(text.isascii() for name, text in rendered.items() if name.endswith(".tex"))

"""Eviction tables on results made in the test: parts pooled by counts, regimes apart, gaps shown as gaps."""

from collections.abc import Iterable, Sequence

import pytest

from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.eviction.columns import CAUSAL, Arm
from keepset.paper.eviction.experiment import EXPERIMENT
from keepset.paper.eviction.figure import scale_figure
from keepset.paper.eviction.orderings import answered, compare, eviction_claims, eviction_orderings
from keepset.paper.eviction.pool import pooled
from keepset.paper.eviction.tables import REFERENCE
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import clustered_difference, share
from keepset.paper.table import Table

MODEL = "tiny-model"
ARMS = (
    *(Arm("causal", seed) for seed in range(3)),
    Arm("imitation", 0),
    *map(Arm, ("h2o", "snapkv", "restkv", "kvzip")),
)
BOTH_MODES = ("global", "post_prefill")


def run_of(
    number: int,
    metrics: Sequence[Metric],
    policy: str | None = None,
    task: str = "single",
    length: int = 1_024,
    steps: int = 100,
    model: str = MODEL,
    kept_blocks: Sequence[int] = (4, 8, 16),
) -> RunResult:
    at = {"model": model, "length": length, "task": task, "part": number}
    return RunResult(
        experiment="eviction",
        scale="small",
        at=at if policy is None else at | {"policy": policy},
        command="keepset reproduce eviction",
        config={
            "blocks": length // 32,
            "kept_blocks": list(kept_blocks),
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


def results(runs: Iterable[RunResult]) -> Results:
    return Results({str(number): run for number, run in enumerate(runs)})


def dense(right: int, n: int, condition: str = "single") -> Metric:
    return share("dense", right, n, condition=condition)


def placed(arm: Arm, mode: str, condition: str, regime: str = "pre_query") -> dict[str, str | int | float]:
    at: dict[str, str | int | float] = {"condition": condition, "regime": regime, "mode": mode, "budget": 0.1}
    return at if arm.router_seed is None else at | {"router_seed": arm.router_seed}


def preserved(arm: Arm, right: int, n: int, regime: str = "pre_query", condition: str = "single") -> list[Metric]:
    """At 10 % in both modes, ``global`` one worse where it can be."""
    return [
        share("preserved", max(0, right - worse), n, **placed(arm, mode, condition, regime))
        for mode, worse in (("global", 1), ("post_prefill", 0))
    ]


def part(
    number: int, solved: Metric | Sequence[Metric], *found: tuple[Arm, list[Metric]], **run: object
) -> list[RunResult]:
    """``dense``, then one run per policy."""
    facts = [solved] if isinstance(solved, Metric) else solved
    by_policy: dict[str, list[Metric]] = {}
    for arm, metrics in found:
        by_policy.setdefault(arm.policy, []).extend(metrics)
    alone = [run_of(number, metrics, policy, **run) for policy, metrics in by_policy.items()]
    return [run_of(number, facts, **run), *alone]


def tables(runs: Iterable[RunResult]) -> list[Table]:
    found = results(runs)
    return [item for report in EXPERIMENT.reports for item in report.make(found) if isinstance(item, Table)]


def named(found: list[Table], name: str) -> Table:
    (table,) = [table for table in found if table.name == name]
    return table


def cell(table: Table, row: int, column: str) -> str:
    return [row for row in table.rows if row][row][table.columns.index(column)]


H2O, SNAPKV = Arm("h2o"), Arm("snapkv")


def test_parts_are_pooled_by_counts_and_not_by_shares() -> None:
    first = part(0, dense(9, 10), (CAUSAL, preserved(CAUSAL, 9, 9)))
    second = part(1, dense(3, 10), (CAUSAL, preserved(CAUSAL, 0, 3)))
    (pool,) = pooled(results(first + second))
    assert pool.solved("single") == 12
    assert pool.share("single", "pre_query", "post_prefill", CAUSAL, 0.1) == share("preserved", 9, 12)


def test_a_part_in_which_nothing_was_answered_adds_nothing() -> None:
    first = part(0, dense(4, 10), (H2O, preserved(H2O, 2, 4)))
    second = part(1, dense(0, 10), (H2O, []))
    table = named(tables(first + second), f"tab-pq-{MODEL}-1024-post_prefill")
    assert cell(table, 0, "n") == "4"
    assert cell(table, 0, "H2O").startswith("0.50 [0.15–0.85]")


def test_a_cell_has_value_interval_and_the_papers_number_at_the_same_multiple_of_the_training_length() -> None:
    for length, paper in ((512, ""), (1_024, " (0.84)"), (2_048, " (0.83)"), (4_096, " (0.72)")):
        causal = preserved(CAUSAL, 9, 10, condition="multikey")
        found = tables(part(0, dense(10, 10, "multikey"), (CAUSAL, causal), task="multikey", length=length))
        table = named(found, f"tab-pq-{MODEL}-{length}-post_prefill")
        assert cell(table, 0, "causal (seed 0)") == "0.90 [0.60–0.98]" + paper
        assert any("Round brackets" in note for note in table.notes) == bool(paper)
    assert f"{MODEL}: " in table.caption
    assert "4,096 tokens in 128 blocks, 8 × the routers' training length" in table.caption


def test_regimes_have_columns_and_modes_tables_of_their_own() -> None:
    snapkv = preserved(SNAPKV, 3, 10) + preserved(SNAPKV, 9, 10, "query_aware")
    found = tables(part(0, dense(10, 10), (SNAPKV, snapkv)))
    dropped, never_read = (named(found, f"tab-pq-{MODEL}-1024-{mode}") for mode in ("post_prefill", "global"))
    assert cell(dropped, 0, "SnapKV (context window)").startswith("0.30 ")
    assert cell(never_read, 0, "SnapKV (context window)").startswith("0.20 ")
    assert cell(dropped, 0, REFERENCE).startswith("0.90 ")
    assert any(note.startswith("* reads the question") for note in dropped.notes)
    aware = named(found, f"tab-qa-{MODEL}")
    assert [row[2] for row in aware.rows] == ["global", "post_prefill"]
    assert cell(aware, 0, "SnapKV").startswith("0.80 ")
    assert cell(aware, 1, "SnapKV").startswith("0.90 ")


def test_a_policy_the_paper_does_not_have_comes_after_its_columns_where_it_was_run() -> None:
    other = Arm("longest")
    asked = preserved(SNAPKV, 9, 10, "query_aware")
    blind = (other, preserved(other, 7, 10)), (H2O, preserved(H2O, 2, 10))
    found = tables(part(0, dense(10, 10), *blind, (SNAPKV, asked)))
    columns = named(found, f"tab-pq-{MODEL}-1024-global").columns
    assert columns[-3:] == ("evidence set", "longest", REFERENCE)
    assert "longest" not in named(found, f"tab-qa-{MODEL}").columns, "it was run without the question only"
    assert "H2O" not in named(found, f"tab-qa-{MODEL}").columns


def test_what_was_not_run_is_a_dash() -> None:
    runs = part(0, dense(5, 10), (H2O, preserved(H2O, 2, 5)))
    found = tables(runs)
    table = named(found, f"tab-pq-{MODEL}-1024-global")
    assert [row[1] for row in table.rows] == ["10 %"], "a budget at which nothing was run has no row"
    assert cell(table, 0, "MomentKV") == "-"
    assert REFERENCE not in table.columns
    assert not [table for table in found if table.name.startswith("tab-qa")], "nobody saw the question"
    assert "KVzip" not in table.columns, "neither the paper's nor run"
    assert not [table for table in found if table.name == "eviction-orderings"], "the causal router was not run"
    assert cell(named(found, f"eviction-dense-{MODEL}"), 0, "fits 10 %") == "-"
    assert not [table for table in found if table.name == "tab-pq-staleany"], "no control, no table"
    assert eviction_claims(results(runs)) == []


def test_a_policy_that_only_some_parts_have_is_refused() -> None:
    first = part(0, dense(5, 10), (H2O, preserved(H2O, 2, 5)))
    second = part(1, dense(6, 10))
    with pytest.raises(ValueError, match="single, h2o: expected all 11 questions the model answers, got 5"):
        tables(first + second)


@pytest.mark.parametrize("other", [{"steps": 50}, {"kept_blocks": (3, 8, 16)}])
def test_parts_of_other_routers_or_budgets_are_refused(other: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="tiny-model, 1024 tokens: expected parts run alike"):
        pooled(results(part(0, dense(5, 10)) + part(1, dense(5, 10), **other)))


def test_kept_evidence_and_what_it_decides() -> None:
    facts = [dense(10, 10), share("global_equals_mask", 10, 10, condition="single")]
    facts += [share("feasible", right, 10, condition="single", budget=b) for b, right in ((0.1, 3), (0.25, 10))]
    h2o = []
    for mode in BOTH_MODES:
        at = placed(H2O, mode, "single")
        h2o += [share("evidence_kept", 4, 10, **(at | {"budget": budget})) for budget in (0.1, 0.25)]
        h2o.append(share("preserved_given_kept", 4, 4, **at))
    h2o.append(share("preserved_given_dropped", 3, 6, **placed(H2O, "post_prefill", "single")))
    found = tables(part(0, facts, (H2O, h2o)))
    evidence = named(found, f"eviction-evidence-{MODEL}-1024")
    (row,) = [row for row in evidence.rows if row and row[1] == "H2O"]
    assert row == (
        *("single needle", "H2O", "10", "0.40 [0.17–0.69]", "0.40 [0.17–0.69]", "-"),
        *("1.00 [0.51–1.00] of 4", "-", "1.00 [0.51–1.00] of 4", "0.50 [0.19–0.81] of 6"),
    )
    table = named(found, f"eviction-dense-{MODEL}")
    assert table.rows == (("single needle", "1,024", "32", "1.00 [0.72–1.00]", "10", "0.30", "1.00", "-", "10 of 10"),)


def only_causal(right: int, n: int, condition: str) -> list[Metric]:
    """As files without outcomes have it, in both modes."""
    return [share("only_causal", right, n, **placed(H2O, mode, condition)) for mode in BOTH_MODES]


@pytest.mark.parametrize(
    ("causal", "rival", "verdict"), [(29, 3, HOLDS), (3, 29, FAILS), (20, 19, OPEN), (30, 30, OPEN)]
)
def test_orderings_are_told_from_the_interval(causal: int, rival: int, verdict: str) -> None:
    h2o = preserved(H2O, rival, 30, condition="multikey") + only_causal(max(0, causal - rival), 30, "multikey")
    runs = part(
        0,
        dense(30, 30, "multikey"),
        (CAUSAL, preserved(CAUSAL, causal, 30, condition="multikey")),
        (H2O, h2o),
        task="multikey",
    )
    (table,) = eviction_orderings(results(runs))
    for row in (0, 1):
        assert cell(table, row, "H2O").endswith(f"(+0.73) {verdict}")
        assert cell(table, row, "imitation") == "-"
    claims = eviction_claims(results(runs))
    assert [claim.verdict for claim in claims] == [verdict, verdict], "H2O alone was run, in both modes"
    assert "causal ahead of H2O (tiny-model, global)" in claims[0].claim
    assert claims[0].paper == "+0.03 to +0.81 by task and length"
    assert claims[0].n == "30 questions of 1,024 tokens"


def outcomes(arm: Arm, each: str) -> tuple[Arm, list[Metric]]:
    counted = each.replace(".", "")
    found = [share("preserved", counted.count("1"), len(counted), **placed(arm, mode, "single")) for mode in BOTH_MODES]
    return arm, [metric.model_copy(update={"each": each}) for metric in found]


def test_outcomes_pair_two_policies_and_parts_without_them_have_the_share() -> None:
    fresh = part(0, dense(6, 8), outcomes(CAUSAL, "1111.00."), outcomes(H2O, "0011.10."))
    (pool,) = pooled(results(fresh))
    assert pool.only_causal("single", "global", H2O, 0.1) == share("only_causal", 2, 6)
    h2o = preserved(H2O, 2, 4) + only_causal(1, 4, "single")
    old = part(1, dense(4, 4), (CAUSAL, preserved(CAUSAL, 3, 4)), (H2O, h2o))
    (both,) = pooled(results(fresh + old))
    assert both.only_causal("single", "global", H2O, 0.1) == share("only_causal", 3, 10)
    without = part(1, dense(4, 4), (CAUSAL, preserved(CAUSAL, 3, 4)), (H2O, preserved(H2O, 2, 4)))
    (neither,) = pooled(results(without))
    assert neither.only_causal("single", "global", H2O, 0.1) is None


def test_too_few_questions_settle_nothing_and_tasks_add_up() -> None:
    runs = []
    for task, n in (("single", 4), ("multikey", 17)):
        causal = [share("preserved", n, n, **placed(CAUSAL, mode, task)) for mode in BOTH_MODES]
        h2o = [share("preserved", 0, n, **placed(H2O, mode, task)) for mode in BOTH_MODES] + only_causal(n, n, task)
        runs += part(0, dense(n, n, task), (CAUSAL, causal), (H2O, h2o), task=task)
    (table,) = eviction_orderings(results(runs))
    for row, (title, n, verdict) in enumerate(
        [("single needle", 4, OPEN), ("multikey", 17, OPEN), ("all tasks", 21, HOLDS)]
    ):
        assert cell(table, row, "Condition") == title
        assert cell(table, row, "n") == str(n)
        assert cell(table, row, "H2O").startswith("+1.00 [+")
        assert cell(table, row, "H2O").endswith(verdict)


def test_lengths_of_the_first_protocol_are_not_added_up() -> None:
    """Their documents share keys, numbers and depths."""
    runs = []
    for length, n in ((1_024, 12), (2_048, 15)):
        causal = [share("preserved", n, n, **placed(CAUSAL, mode, "single")) for mode in BOTH_MODES]
        h2o = [share("preserved", 0, n, **placed(H2O, mode, "single")) for mode in BOTH_MODES]
        rival = h2o + only_causal(n, n, "single")
        runs += part(0, dense(n, n, "single"), (CAUSAL, causal), (H2O, rival), task="single", length=length)
    claim, _ = eviction_claims(results(runs))
    assert (claim.n, claim.verdict) == ("15 questions of 2,048 tokens", OPEN)


def control(length: int, model: str = MODEL) -> list[RunResult]:
    conditions = ("register_log", "register_log_any")
    found = [(arm, preserved(arm, 6, 8, condition=condition)) for arm in ARMS for condition in conditions]
    facts = [dense(8, 10, condition) for condition in conditions]
    return part(0, facts, *found, task="register_log", length=length, model=model)


def test_the_control_seeds_and_restkv_have_tables_over_all_models() -> None:
    found = tables(control(1_024) + control(2_048))
    anything = named(found, "tab-pq-staleany")
    assert cell(anything, 1, "H2O") == "-", "25 % was not run"
    assert cell(anything, 3, "H2O") == "0.75 [0.41–0.93] (0.25)"
    seeds = named(found, "tab-pq-seeds")
    assert {row[1] for row in seeds.rows if row} == {"register log", "register log, any query"}
    assert cell(seeds, 1, "seed 1") == "0.75 [0.41–0.93] (0.90)"
    restkv = named(found, "tab-restkv")
    assert [row[2] for row in restkv.rows if row] == ["1,024"] * 4 + ["2,048"] * 4
    assert cell(restkv, 1, "pre_query, 10 %") == "0.75 [0.41–0.93] (0.15)"
    assert cell(restkv, 1, "query_aware, 10 %") == "-"


def test_the_figure_takes_the_longest_length_that_every_model_has() -> None:
    def runs(model: str, *lengths: int) -> list[RunResult]:
        found = ((CAUSAL, preserved(CAUSAL, 9, 10)), (H2O, preserved(H2O, 2, 10)))
        return [run for length in lengths for run in part(0, dense(10, 10), *found, length=length, model=model)]

    own, other = runs(MODEL, 1_024, 2_048, 4_096), runs("other-model", 1_024, 2_048)
    (drawn,) = scale_figure(results(own + other))
    assert "mode global, 2,048 tokens" in drawn.svg
    assert [drawn] == scale_figure(results(own + other))
    assert scale_figure(results(runs(MODEL, 4_096) + runs("other-model", 1_024))) == []
    assert scale_figure(Results({})) == []
    assert scale_figure(results(part(0, dense(10, 10)))) == [], "no policy was run yet"


def test_differences_are_of_the_largest_model_and_say_what_was_not_run() -> None:
    register_log = next(d for d in EXPERIMENT.differences if "register log at 10 %" in d.result)
    staleany = next(d for d in EXPERIMENT.differences if "staleany" in d.result)
    largest = results(control(1_024) + control(1_024, "qwen2.5-coder-1.5b-instruct"))
    assert staleany.here(largest) == "0.62, 0.62 at 1,024 tokens (n = 8)"
    assert register_log.here(largest) == "not run at 1,024 tokens", "the evidence set is missing"
    assert staleany.here(results(control(1_024))) == "not run at 2 × the routers' training length"


def test_every_table_prints_as_latex() -> None:
    assert all(table.latex().isascii() for table in tables(control(1_024) + control(2_048)))


def lines(number: int, metrics: Sequence[Metric], policy: str | None = None, task: str = "single") -> RunResult:
    """A result of the protocol with lines as blocks."""
    found = run_of(number, metrics, policy, task)
    config = {name: value for name, value in found.config.items() if name != "kept_blocks"} | {"blocks": "line"}
    return found.model_copy(update={"at": found.at | {"blocks": "line"}, "config": config, "counts": {"documents": 4}})


def counted_outcomes(each: str, arm: Arm, condition: str) -> Metric:
    counted = [mark for mark in each if mark != "."]
    at = placed(arm, "global", condition)
    found = share("preserved", counted.count("1"), len(counted), **at)
    return found.model_copy(update={"each": each})


def test_results_of_two_protocols_share_no_row() -> None:
    old = part(0, dense(9, 10), (CAUSAL, preserved(CAUSAL, 9, 9)))
    new = [lines(0, [dense(4, 4)]), lines(0, [counted_outcomes("1101", CAUSAL, "single")], "causal")]
    pools = pooled(results(old + new))
    assert [(pool.subject, pool.blocks) for pool in pools] == [(MODEL, 32), (f"{MODEL}, lines", "line")]
    assert [pool.solved("single") for pool in pools] == [9, 4]
    found = {table.name: table for table in tables(old + new)}
    assert f"tab-pq-{MODEL}-1024-global" in found
    assert "lines as blocks" in found[f"tab-pq-{MODEL}-lines-1024-global"].caption
    assert f"tab-pq-{MODEL}-lines-1024-post_prefill" not in found, "a mode that was not run has no table"
    assert "in 32 blocks" in found[f"tab-pq-{MODEL}-1024-global"].caption


def test_conditions_of_one_document_are_one_cluster() -> None:
    log = (share("dense", 4, 4, condition="register_log"), share("dense", 4, 4, condition="register_log_any"))
    runs = [
        lines(0, [dense(4, 4)]),
        lines(0, [counted_outcomes("1111", CAUSAL, "single")], "causal"),
        lines(0, [counted_outcomes("1011", H2O, "single")], "h2o"),
        lines(0, log, task="register_log"),
    ]
    for arm, marks in ((CAUSAL, "1111"), (H2O, "0011")):
        both = [counted_outcomes(marks, arm, condition) for condition in ("register_log", "register_log_any")]
        runs.append(lines(0, both, arm.policy, task="register_log"))
    (pool,) = pooled(results(runs))
    found = compare(answered([pool]), "global", H2O)
    assert found is not None
    assert found.gap == clustered_difference("preserved", [[0], [1], [0], [0], [1, 1], [1, 1], [0, 0], [0, 0]])
    table = named(tables(runs), "eviction-orderings")
    rows = [row for row in table.rows if row]
    assert [row[4] for row in rows][-1] == "all tasks", "with the control; without the log one task is left"
    assert rows[-1][3] == "10 %"
    assert rows[-1][table.columns.index("n")] == "12"

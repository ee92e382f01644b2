"""Long-context eviction: ``tab:qa``, ``tab:pq8k`` to ``tab:pq32k`` at our lengths, ``tab:pq-staleany``,
``tab:pq-seeds``, ``tab:restkv``; and kept evidence.

No column mixes regimes, no row mixes modes.
"""

from collections.abc import Sequence

from keepset.paper.eviction.paper_numbers import BUDGETS, LENGTHS
from keepset.paper.eviction.pool import Pool, pooled, with_interval
from keepset.paper.result import RunResult
from keepset.paper.table import Table

CONDITIONS = {
    "single": "single needle",
    "multikey": "multikey",
    "variable_tracking": "variable tracking",
    "register_log": "register log",
}
CONTROL = "register_log_any"
ALL_CONDITIONS = {**CONDITIONS, CONTROL: "register log, any query"}
MODES = ("global", "post_prefill")
PRE_QUERY = {
    "causal_r0": "causal (seed 0)",
    "imitation_r0": "imitation",
    "h2o": "H2O",
    "snapkv": "SnapKV (context window)",
    "momentkv": "MomentKV",
    "restkv": "ReST-KV",
    "kvzip": "KVzip",
    "recency": "recency",
    "random": "random",
    "oracle": "evidence set",
}
"""Policies that never see the question."""
QUERY_AWARE = {
    "causal_r0": "causal (seed 0)",
    "imitation_r0": "imitation",
    "snapkv": "SnapKV",
    "momentkv": "MomentKV",
    "restkv": "ReST-KV",
    "oracle": "evidence set",
}
SEEDS = ("causal_r0", "causal_r1", "causal_r2")
MAIN_BUDGET = BUDGETS[0]
SHARE_NOTE = (
    "n: questions the model answers with everything visible; shares are of these. Square brackets: 95 % Wilson "
    "interval. -: not run."
)
EVIDENCE_NOTE = (
    "Evidence set: the blocks of every question that could be asked, as the generator knows them, cut off in document "
    "order where the budget holds fewer; an upper bound only where it holds them all."
)
REFERENCE = "SnapKV with the question * (query_aware)"
REFERENCE_NOTE = "* reads the question: a reference from the regime query_aware, not a comparator."


def eviction_tables(results: list[RunResult]) -> list[Table]:
    """Every table that has a row."""
    pools = pooled(results)
    models = {model: [pool for pool in pools if pool.model == model] for model in dict.fromkeys(p.model for p in pools)}
    tables = [
        *(query_aware_table(found) for found in models.values()),
        *(pre_query_table(pool, mode) for pool in pools for mode in MODES),
        any_query_table(pools),
        seeds_table(pools),
        restkv_table(pools),
        *(dense_table(found) for found in models.values()),
        *(evidence_table(pool) for pool in pools),
    ]
    return [table for table in tables if table.rows]


def pre_query_table(pool: Pool, mode: str) -> Table:
    """``tab:pq8k`` and its like: every policy at every budget, before the question is known."""
    rows: list[tuple[str, ...]] = []
    for condition in pool.conditions(CONDITIONS):
        rows.append(())
        for budget in BUDGETS:
            cells = pre_query_cells(pool, condition, mode, budget)
            rows.append((CONDITIONS[condition], percent(budget), str(pool.solved(condition)), *cells))
    return Table(
        name=f"tab-pq-{pool.model}-{pool.length}-{mode}",
        caption=(
            f"Pre-query eviction, mode {mode}, {pool.model}: share of the questions answered with everything visible "
            f"that are still answered when a budget of the blocks is kept. {described(pool)}."
        ),
        columns=("Condition", "Budget", "n", *PRE_QUERY.values(), REFERENCE),
        rows=tuple(rows[1:]),
        notes=(SHARE_NOTE, EVIDENCE_NOTE, REFERENCE_NOTE, *paper_note([pool], "tab:pq8k, tab:pq16k, tab:pq32k")),
    )


def pre_query_cells(pool: Pool, condition: str, mode: str, budget: str) -> list[str]:
    """The policies that do not see the question, then the reference that does."""
    blind = [pool.preserved(condition, "pre_query", mode, policy, budget) for policy in PRE_QUERY]
    return [*blind, pool.preserved(condition, "query_aware", mode, "snapkv", budget)]


def query_aware_table(pools: list[Pool]) -> Table:
    """``tab:qa``: every policy sees the question."""
    model = pools[0].model
    rows: list[tuple[str, ...]] = []
    for condition, title in CONDITIONS.items():
        asked = [pool for pool in pools if condition in pool.conditions(CONDITIONS)]
        rows += [()] if asked else []
        for pool in asked:
            for mode in MODES:
                cells = [pool.preserved(condition, "query_aware", mode, policy, MAIN_BUDGET) for policy in QUERY_AWARE]
                rows.append((title, f"{pool.length:,}", mode, str(pool.solved(condition)), *cells))
    return Table(
        name=f"tab-qa-{model}",
        caption=(
            f"Query-aware eviction, {model}, {percent(MAIN_BUDGET)} of the blocks: the routers and every policy see "
            "the question. Share of the questions answered with everything visible that are still answered."
        ),
        columns=("Condition", "Length", "Mode", "n", *QUERY_AWARE.values()),
        rows=tuple(rows[1:]),
        notes=(
            SHARE_NOTE,
            "Evidence set: the blocks of the question that is asked.",
            *paper_note(pools, "tab:qa, tab:restkv"),
        ),
    )


def any_query_table(pools: list[Pool]) -> Table:
    """``tab:pq-staleany``: corrections first is no way to guess the register that is asked for."""
    rows: list[tuple[str, ...]] = []
    for pool in pools:
        for condition in pool.conditions([CONTROL]):
            for mode in MODES:
                rows.append(())
                for budget in BUDGETS:
                    cells = pre_query_cells(pool, condition, mode, budget)
                    rows.append(
                        (pool.model, f"{pool.length:,}", mode, percent(budget), str(pool.solved(condition)), *cells)
                    )
    return Table(
        name="tab-pq-staleany",
        caption=(
            "Shortcut control for the register log, pre-query: the same documents, any register asked, so that it is "
            "seldom the corrected one. Share of the questions answered with everything visible that are still answered."
        ),
        columns=("Model", "Length", "Mode", "Budget", "n", *PRE_QUERY.values(), REFERENCE),
        rows=tuple(rows[1:]),
        notes=(SHARE_NOTE, EVIDENCE_NOTE, REFERENCE_NOTE, *paper_note(pools, "tab:pq-staleany")),
    )


def seeds_table(pools: list[Pool]) -> Table:
    """``tab:pq-seeds``: the causal router from every initialization, at the paper's multiple of the training length."""
    shifted = [pool for pool in pools if pool.times == min(LENGTHS)]
    rows: list[tuple[str, ...]] = []
    for pool in shifted:
        for condition in pool.conditions(ALL_CONDITIONS):
            rows.append(())
            for budget in BUDGETS[:2]:
                for mode in MODES:
                    cells = [pool.preserved(condition, "pre_query", mode, seed, budget) for seed in SEEDS]
                    head = (pool.model, ALL_CONDITIONS[condition], percent(budget), mode, str(pool.solved(condition)))
                    rows.append((*head, *cells))
    return Table(
        name="tab-pq-seeds",
        caption=(
            "The causal router from three initializations, pre-query, at twice the training length: share of the "
            "questions answered with everything visible that are still answered."
        ),
        columns=("Model", "Condition", "Budget", "Mode", "n", *(f"seed {number}" for number in range(len(SEEDS)))),
        rows=tuple(rows[1:]),
        notes=(SHARE_NOTE, *paper_note(shifted, "tab:pq-seeds")),
    )


def restkv_table(pools: list[Pool]) -> Table:
    """``tab:restkv``: the reconstruction indicator with and without the question."""
    rows: list[tuple[str, ...]] = []
    for pool in pools:
        rows.append(())
        for condition in pool.conditions(ALL_CONDITIONS):
            for mode in MODES:
                cells = [
                    pool.preserved(condition, regime, mode, "restkv", budget)
                    for regime in ("pre_query", "query_aware")
                    for budget in BUDGETS
                ]
                head = (pool.model, ALL_CONDITIONS[condition], f"{pool.length:,}", mode, str(pool.solved(condition)))
                rows.append((*head, *cells))
    return Table(
        name="tab-restkv",
        caption=(
            "ReST-KV's indicator (output reconstruction) on blocks: share of the questions answered with everything "
            "visible that are still answered."
        ),
        columns=(
            "Model",
            "Condition",
            "Length",
            "Mode",
            "n",
            *(f"{regime}, {percent(budget)}" for regime in ("pre_query", "query_aware") for budget in BUDGETS),
        ),
        rows=tuple(rows[1:]),
        notes=(SHARE_NOTE, *paper_note(pools, "tab:restkv")),
    )


def dense_table(pools: list[Pool]) -> Table:
    """What the shares are of: dense accuracy, whether a budget can hold the evidence, and the check of ``global``."""
    model = pools[0].model
    rows: list[tuple[str, ...]] = []
    for condition, title in ALL_CONDITIONS.items():
        asked = [pool for pool in pools if condition in pool.conditions(ALL_CONDITIONS)]
        rows += [()] if asked else []
        for pool in asked:
            dense = pool.shares[f"{condition}/dense"]
            feasible = [pool.shares.get(f"{condition}/feasible/{budget}") for budget in BUDGETS]
            same = pool.shares.get(f"{condition}/global_equals_mask")
            rows.append(
                (
                    title,
                    f"{pool.length:,}",
                    str(pool.blocks),
                    with_interval(dense),
                    str(dense.n),
                    *(f"{share.value:.2f}" if share else "-" for share in feasible),
                    f"{round(same.value * same.n)} of {same.n}" if same else "-",
                )
            )
    return Table(
        name=f"eviction-dense-{model}",
        caption=(
            f"What eviction is measured on, {model}: share of the questions answered with everything visible; of "
            "these, the share whose budget holds the evidence of every possible question; and on how many dropping "
            f"blocks before the prefill (causal router, {percent(MAIN_BUDGET)}, global) gives the judgement of the "
            "mask operator."
        ),
        columns=(
            "Condition",
            "Length",
            "Blocks",
            "Dense",
            "n",
            *(f"fits {percent(budget)}" for budget in BUDGETS),
            "global = mask",
        ),
        rows=tuple(rows[1:]),
        notes=(
            "Square brackets: 95 % Wilson interval. -: not run; generated answers (variable tracking) are not held "
            "against the mask.",
        ),
    )


def evidence_table(pool: Pool) -> Table:
    """Is the evidence of the question kept, and does keeping it decide the answer?"""
    rows: list[tuple[str, ...]] = []
    for condition in pool.conditions(ALL_CONDITIONS):
        rows.append(())
        for policy, title in PRE_QUERY.items():
            recall = [
                pool.share(condition, "pre_query", MODES[1], policy, budget, "evidence_kept") for budget in BUDGETS
            ]
            given = [
                pool.share(condition, "pre_query", mode, policy, MAIN_BUDGET, f"preserved_given_{what}")
                for mode in MODES
                for what in ("kept", "dropped")
            ]
            rows.append(
                (
                    ALL_CONDITIONS[condition],
                    title,
                    str(pool.solved(condition)),
                    *(with_interval(share) if share else "-" for share in recall),
                    *(f"{with_interval(share)} of {share.n}" if share else "-" for share in given),
                )
            )
    return Table(
        name=f"eviction-evidence-{pool.model}-{pool.length}",
        caption=(
            f"Kept evidence, pre-query, {pool.model}: share of the questions all of whose evidence is among the kept "
            f"blocks, at each budget; and at {percent(MAIN_BUDGET)} the share still answered where it was kept and "
            f"where some was dropped. {described(pool)}."
        ),
        columns=(
            "Condition",
            "Policy",
            "n",
            *(f"kept, {percent(budget)}" for budget in BUDGETS),
            *(f"answered if {what}, {mode}" for mode in MODES for what in ("kept", "dropped")),
        ),
        rows=tuple(rows[1:]),
        notes=(
            "n: questions the model answers with everything visible. Square brackets: 95 % Wilson interval. Which "
            "blocks are kept does not depend on the mode. -: no such question, or not run.",
        ),
    )


def percent(budget: str) -> str:
    return f"{100 * float(budget):g} %"


def described(pool: Pool) -> str:
    """Size of the documents, beside what the routers were trained on."""
    trained = "the routers' training length" if pool.times == 1 else f"{pool.times:g} × the routers' training length"
    return f"Documents of {pool.length:,} tokens in {pool.blocks} blocks, {trained}"


def paper_note(pools: Sequence[Pool], tables: str) -> tuple[str, ...]:
    """Where the numbers in round brackets come from, if there can be any."""
    known = sorted({int(pool.times) for pool in pools if pool.times in LENGTHS})
    if not known:
        return ()
    lengths = ", ".join(f"{LENGTHS[times]} for our {times} ×" for times in known)
    return (
        f"Round brackets: the paper's, Qwen2.5-7B ({tables}) at the same multiple of the training length: {lengths}. "
        "The paper does not say which mode.",
    )

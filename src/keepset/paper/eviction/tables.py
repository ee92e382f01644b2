"""Long-context eviction: ``tab:qa``, ``tab:pq8k`` to ``tab:pq32k`` at our lengths, ``tab:pq-staleany``,
``tab:pq-seeds``, ``tab:restkv``; and kept evidence.

No column mixes regimes, no row mixes modes.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from keepset.paper.eviction.columns import (
    ALL_CONDITIONS,
    CAUSAL_SEEDS,
    CONDITIONS,
    CONTROL,
    Arm,
    percent,
)
from keepset.paper.eviction.paper_numbers import BUDGETS, LENGTHS, MAIN_BUDGET, RESTKV, SNAPKV
from keepset.paper.eviction.pool import Place, Pool, pooled, titles, with_interval
from keepset.paper.results import Results
from keepset.paper.table import Table

OWN_TABLES = {
    "Qwen2.5-3B-Instruct": "tab:pq3b8k, tab:pq3b16k",
    "Llama-3.1-8B-Instruct": "tab:pqllama8k, tab:pqllama16k",
    "Qwen2.5-32B-Instruct": "tab:pq32b8k, tab:pq32b16k",
}
"""Models whose tables have labels of their own in the paper; run at scale ``paper`` alone."""
ANY_QUERY_FS = ("Llama-3.1-8B-Instruct", "Qwen2.5-32B-Instruct")
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


def query_aware_tables(results: Results) -> list[Table]:
    """``tab:qa``, per model; on a CPU the question is not known everywhere."""
    pools = [pool for pool in pooled(results) if pool.arms("query_aware")]
    return with_rows(query_aware_table(of_subject(pools, subject)) for subject in subjects(pools))


def pre_query_tables(results: Results) -> list[Table]:
    """``tab:pq8k`` and its like, per model, length and mode."""
    return _pre_query(pool for pool in pooled(results) if pool.model not in OWN_TABLES)


def pre_query_tables_of(model: str, results: Results) -> list[Table]:
    """The same of one model: ``tab:pq3b8k`` and its like."""
    return _pre_query(pool for pool in pooled(results) if pool.model == model)


def _pre_query(pools: Iterable[Pool]) -> list[Table]:
    return with_rows(pre_query_table(pool, mode) for pool in pools for mode in pool.modes)


def any_query_tables(results: Results) -> list[Table]:
    """``tab:pq-staleany``, where the control was run."""
    pools = [pool for pool in pooled(results) if pool.model not in ANY_QUERY_FS]
    return with_rows([any_query_table(pools, "tab-pq-staleany")])


def any_query_fs_tables(results: Results) -> list[Table]:
    """``tab:pq-staleany-fs``: second family and largest scale."""
    pools = [pool for pool in pooled(results) if pool.model in ANY_QUERY_FS]
    return with_rows([any_query_table(pools, "tab-pq-staleany-fs")])


def seeds_tables(results: Results) -> list[Table]:
    """``tab:pq-seeds``, where documents of that length were run."""
    return with_rows([seeds_table(pooled(results))])


def restkv_tables(results: Results) -> list[Table]:
    """``tab:restkv``."""
    return with_rows([restkv_table(pooled(results))])


def dense_tables(results: Results) -> list[Table]:
    """What the shares are of, per model."""
    pools = pooled(results)
    return with_rows(dense_table(of_subject(pools, subject)) for subject in subjects(pools))


def evidence_tables(results: Results) -> list[Table]:
    """Kept evidence, per model and length."""
    return with_rows(evidence_table(pool) for pool in pooled(results))


def with_rows(tables: Iterable[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def subjects(pools: Sequence[Pool]) -> list[str]:
    return list(dict.fromkeys(pool.subject for pool in pools))


def of_subject(pools: Sequence[Pool], subject: str) -> list[Pool]:
    return [pool for pool in pools if pool.subject == subject]


def pre_query_table(pool: Pool, mode: str) -> Table:
    """``tab:pq8k`` and its like: every policy at every budget, before the question is known."""
    columns = titles([pool], "pre_query")
    reference = [REFERENCE] if pool.arms("query_aware") else []
    rows: list[tuple[str, ...]] = []
    for condition in pool.conditions(CONDITIONS):
        group = []
        for budget in BUDGETS:
            cells = pre_query_cells(pool, condition, mode, columns, budget)[: len(columns) + len(reference)]
            if set(cells) != {"-"}:
                group.append((CONDITIONS[condition], percent(budget), str(pool.solved(condition)), *cells))
        rows += [(), *group] if group else []
    return Table(
        name=f"tab-pq-{pool.slug}-{pool.length}-{mode}",
        caption=(
            f"Pre-query eviction, mode {mode}, {pool.subject}: share of the questions answered with everything visible "
            f"that are still answered when a budget of the blocks is kept. {described(pool)}."
        ),
        columns=("Condition", "Budget", "n", *columns.values(), *reference),
        rows=tuple(rows[1:]),
        notes=(
            SHARE_NOTE,
            EVIDENCE_NOTE,
            *([REFERENCE_NOTE] if reference else []),
            *paper_note([pool], "tab:pq8k, tab:pq16k, tab:pq32k"),
        ),
    )


def pre_query_cells(pool: Pool, condition: str, mode: str, arms: Iterable[Arm], budget: float) -> list[str]:
    """The policies that do not see the question, then the reference that does."""
    blind = [pool.preserved(condition, "pre_query", mode, arm, budget) for arm in arms]
    return [*blind, pool.preserved(condition, "query_aware", mode, SNAPKV, budget)]


def query_aware_table(pools: list[Pool]) -> Table:
    """``tab:qa``: every policy sees the question."""
    model = pools[0].subject
    columns = titles(pools, "query_aware")
    rows: list[tuple[str, ...]] = []
    for condition, title in CONDITIONS.items():
        asked = [pool for pool in pools if condition in pool.conditions(CONDITIONS)]
        rows += [()] if asked else []
        for pool in asked:
            for mode in pool.modes:
                cells = [pool.preserved(condition, "query_aware", mode, arm, MAIN_BUDGET) for arm in columns]
                rows.append((title, f"{pool.length:,}", mode, str(pool.solved(condition)), *cells))
    return Table(
        name=f"tab-qa-{pools[0].slug}",
        caption=(
            f"Query-aware eviction, {model}, {percent(MAIN_BUDGET)} of the blocks: the routers and every policy see "
            "the question. Share of the questions answered with everything visible that are still answered."
        ),
        columns=("Condition", "Length", "Mode", "n", *columns.values()),
        rows=tuple(rows[1:]),
        notes=(
            SHARE_NOTE,
            "Evidence set: the blocks of the question that is asked.",
            *paper_note(pools, "tab:qa, tab:restkv"),
        ),
    )


def any_query_table(pools: list[Pool], name: str) -> Table:
    """``tab:pq-staleany``: corrections first is no way to guess the register that is asked for."""
    columns = titles(pools, "pre_query")
    rows: list[tuple[str, ...]] = []
    for pool in pools:
        for condition in pool.conditions([CONTROL]):
            for mode in pool.modes:
                rows.append(())
                for budget in BUDGETS:
                    cells = pre_query_cells(pool, condition, mode, columns, budget)
                    rows.append(
                        (pool.subject, f"{pool.length:,}", mode, percent(budget), str(pool.solved(condition)), *cells)
                    )
    return Table(
        name=name,
        caption=(
            "Shortcut control for the register log, pre-query: the same documents, any register asked, so that it is "
            "seldom the corrected one. Share of the questions answered with everything visible that are still answered."
        ),
        columns=("Model", "Length", "Mode", "Budget", "n", *columns.values(), REFERENCE),
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
                for mode in pool.modes:
                    cells = [pool.preserved(condition, "pre_query", mode, arm, budget) for arm in CAUSAL_SEEDS]
                    head = (pool.subject, ALL_CONDITIONS[condition], percent(budget), mode, str(pool.solved(condition)))
                    rows.append((*head, *cells))
    return Table(
        name="tab-pq-seeds",
        caption=(
            "The causal router from three initializations, pre-query, at twice the training length: share of the "
            "questions answered with everything visible that are still answered."
        ),
        columns=("Model", "Condition", "Budget", "Mode", "n", *(f"seed {arm.router_seed}" for arm in CAUSAL_SEEDS)),
        rows=tuple(rows[1:]),
        notes=(SHARE_NOTE, *paper_note(shifted, "tab:pq-seeds")),
    )


def restkv_table(pools: list[Pool]) -> Table:
    """``tab:restkv``: the reconstruction indicator with and without the question."""
    rows: list[tuple[str, ...]] = []
    for pool in pools:
        rows.append(())
        for condition in pool.conditions(ALL_CONDITIONS):
            for mode in pool.modes:
                cells = [
                    pool.preserved(condition, regime, mode, RESTKV, budget)
                    for regime in ("pre_query", "query_aware")
                    for budget in BUDGETS
                ]
                head = (pool.subject, ALL_CONDITIONS[condition], f"{pool.length:,}", mode, str(pool.solved(condition)))
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
    model = pools[0].subject
    rows: list[tuple[str, ...]] = []
    for condition, title in ALL_CONDITIONS.items():
        asked = [pool for pool in pools if condition in pool.conditions(ALL_CONDITIONS)]
        rows += [()] if asked else []
        for pool in asked:
            dense = pool.pooled(Place("dense", condition))
            assert dense is not None, "conditions() are those that have it"
            feasible = [pool.pooled(Place("feasible", condition, budget=budget)) for budget in BUDGETS]
            same = pool.pooled(Place("global_equals_mask", condition))
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
        name=f"eviction-dense-{pools[0].slug}",
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
        for arm, title in titles([pool], "pre_query").items():
            anywhere = partial(pool.share, condition, "pre_query", "post_prefill", arm, what="evidence_kept")
            recall = [anywhere(budget=budget) for budget in BUDGETS]
            given = [
                pool.share(condition, "pre_query", mode, arm, MAIN_BUDGET, f"preserved_given_{what}")
                for mode in pool.modes
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
        name=f"eviction-evidence-{pool.slug}-{pool.length}",
        caption=(
            f"Kept evidence, pre-query, {pool.subject}: share of the questions all of whose evidence is among the kept "
            f"blocks, at each budget; and at {percent(MAIN_BUDGET)} the share still answered where it was kept and "
            f"where some was dropped. {described(pool)}."
        ),
        columns=(
            "Condition",
            "Policy",
            "n",
            *(f"kept, {percent(budget)}" for budget in BUDGETS),
            *(f"answered if {what}, {mode}" for mode in pool.modes for what in ("kept", "dropped")),
        ),
        rows=tuple(rows[1:]),
        notes=(
            "n: questions the model answers with everything visible. Square brackets: 95 % Wilson interval. Which "
            "blocks are kept does not depend on the mode. -: no such question, or not run.",
        ),
    )


def described(pool: Pool) -> str:
    """Size of the documents, beside what the routers were trained on."""
    trained = "the routers' training length" if pool.times == 1 else f"{pool.times:g} × the routers' training length"
    if isinstance(pool.blocks, str):
        return f"Documents of at most {pool.length:,} tokens, {pool.blocks}s as blocks, {trained}"
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

"""One set for the whole pass against a set per row: ``tab:per-query``."""

from keepset.paper.result import RunResult
from keepset.paper.table import Table

PROTOCOLS = {
    "attention_max": "Attention, global (max heads)",
    "attention_mean": "Attention, global (mean heads)",
    "per_layer": "Attention, per query, per layer",
    "layer_averaged": "Attention, per query, layer-averaged",
    "dense_prefill": "Attention, dense prefill, sparse answer",
    "causal": "Causal, global",
}
PAPER = {
    "attention_max": ("0.41–0.87", "0.91–1.00", "0.09", "0.09"),
    "attention_mean": ("0.48–0.98", "0.90–0.99", "0.09", "0.09"),
    "per_layer": ("0.94–1.00", "0.91–1.00", "0.09", "1.00"),
    "layer_averaged": ("0.93–0.98", "0.91–1.00", "0.09", "1.00"),
    "dense_prefill": ("0.96–1.00", "0.89–0.99", "1.00", "1.00"),
    "causal": ("0.98–0.99", "0.96–0.99", "0.09", "0.09"),
}
"""Multi-hop, unique, row budget, context budget."""
CONDITIONS = ("multihop", "unique")


def per_query_table(results: list[RunResult]) -> Table:
    """Ranges over teachers; the budgets as measured, over both tasks."""
    rows: list[tuple[str, ...]] = []
    for protocol, title in PROTOCOLS.items():
        multihop, unique, row, context = PAPER[protocol]
        rows.append(
            (
                title,
                f"{spread(results, [f'{protocol}_multihop'])} ({multihop})",
                f"{spread(results, [f'{protocol}_unique'])} ({unique})",
                *(
                    f"{spread(results, [f'{protocol}_{condition}_{what}' for condition in CONDITIONS])} ({paper})"
                    for what, paper in (("row", row), ("context", context))
                ),
            )
        )
    rows += [(), ("Dense teacher", spread(results, ["dense_multihop"]), spread(results, ["dense_unique"]), "", "")]
    config = results[0].config
    return Table(
        name="tab-per-query",
        caption=(
            f"Routing under per-query selection, {config['budget']} blocks of {config['n_blocks']} (the paper: 3 of "
            "32): ranges over teachers, the paper's in brackets. Row budget: the largest share of blocks a row may "
            "read outside its own. Context budget: the share of blocks that some row outside the block may read at "
            "some layer. Both are measured on the masks, averaged over examples."
        ),
        columns=("Protocol", "Multi-hop", "Unique", "Row budget", "Context budget"),
        rows=tuple(rows),
        notes=(
            f"Small scale; n = {results[0].counts['examples']} examples per teacher and task, {len(results)} five-task "
            "teachers. Causal: the blocks whose hiding costs the answer most.",
        ),
    )


def spread(results: list[RunResult], names: list[str]) -> str:
    """Lowest and highest over teachers, and over ``names`` where there are several."""
    values = [result.metric(name).value for result in results for name in names]
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}–{high}"

"""What pruning saves of a prefill, a question and memory, beside what the budget allows."""

from keepset.paper.bench.engine_report import quartiles, seconds
from keepset.paper.orderings_report import FAILS, HOLDS
from keepset.paper.result import RunResult
from keepset.paper.table import Table

MODES = ("global", "post_prefill")
BUDGETS = ("0.1", "0.25")
MUST = "global/0.1"
PREFILL_BOUND = 0.2
BYTES_BOUND = 0.12


def prune_table(results: list[RunResult]) -> Table:
    """Per model and length: dense as it is, the router's share, and every mode and budget as multiples of dense."""
    rows: list[tuple[str, ...]] = []
    for result in in_order(results):
        rows += [(), dense_row(result), router_row(result)]
        rows += [side_row(result, mode, budget) for mode in MODES for budget in BUDGETS]
    first = results[0].config
    return Table(
        name="prune-bench",
        caption=(
            "A document pruned before any question, against the same document read whole by transformers: multiples "
            "of dense, median over documents, quartiles in brackets; the dense rows have seconds and bytes. Tokens: "
            "kept over all, chat prefix included, which is the limit of what a budget can save."
        ),
        columns=(
            "Model",
            "Length",
            "Side",
            "n",
            "tokens",
            "prefill",
            "prefill and router",
            "read",
            "answer",
            "keys and values",
            "peak memory",
            "above the loaded model",
        ),
        rows=tuple(rows[1:]),
        notes=(
            f"Small scale; n documents ({first['task']}, blocks of 32 tokens) in one run, every side on every document "
            "in rotating order; CPU seconds of one thread. Read: a question and its answer, "
            f"{first['question_tokens'] + first['answer_tokens']} tokens in one forward. Answer: a question of "
            f"{first['question_tokens']} tokens and {first['answer_tokens']} greedy ones.",
            "Router: untrained (weights do not change the cost), the first layers of the model included; its row is "
            "its share of the dense prefill. Peak memory: resident, a fresh process per side, router included, n = 1.",
            *(must_show(result) for result in in_order(results)),
        ),
    )


def in_order(results: list[RunResult]) -> list[RunResult]:
    return sorted(results, key=lambda result: (result.config["model"], result.config["length"]))


def head(result: RunResult, side: str) -> tuple[str, str, str, str]:
    return result.config["model"], f"{result.config['length']:,}", side, str(result.counts["rounds"])


def dense_row(result: RunResult) -> tuple[str, ...]:
    prefill, read, answer = (
        f"{seconds(result.metric(f'dense/{what}_seconds').value)} s" for what in ("prefill", "read", "answer")
    )
    kept, peak, growth = (
        megabytes(result, f"dense/{what}") for what in ("kv_bytes", "peak_bytes", "peak_growth_bytes")
    )
    tokens = f"{result.metric('dense/tokens').value:,.0f}"
    return (*head(result, "dense"), tokens, prefill, prefill, read, answer, kept, peak, growth)


def router_row(result: RunResult) -> tuple[str, ...]:
    layers = f"router, {result.config['router_layers']} of {result.config['layers']} layers"
    return (*head(result, layers), "", quartiles(result, "router/share", 1, 3), *[""] * 6)


def side_row(result: RunResult, mode: str, budget: str) -> tuple[str, ...]:
    name = f"{mode}/{budget}"
    timed = ("prefill", "prefill_and_router", "read", "answer")
    return (
        *head(result, f"{mode}, {100 * float(budget):g} %"),
        ratio(result, f"{name}/tokens"),
        *(quartiles(result, f"{name}/{what}_ratio", 1, 3) for what in timed),
        *(ratio(result, f"{name}/{what}") for what in ("kv_bytes", "peak_bytes", "peak_growth_bytes")),
    )


def must_show(result: RunResult) -> str:
    """The two bounds the pruner is held to, and what the router adds to the first."""
    prefill, both, kept, limit = (
        result.metric(f"{MUST}/{what}_ratio").value for what in ("prefill", "prefill_and_router", "kv_bytes", "tokens")
    )
    return (
        f"{result.config['model']}, {result.config['length']:,} tokens, global at 10 %: prefill at most "
        f"{PREFILL_BOUND:g} × dense {held(prefill, PREFILL_BOUND)} ({prefill:.3f}), with the router "
        f"{held(both, PREFILL_BOUND)} ({both:.3f}); keys and values at most {BYTES_BOUND:g} × dense "
        f"{held(kept, BYTES_BOUND)} ({kept:.3f}, of which the limit is {limit:.3f})."
    )


def held(value: float, bound: float) -> str:
    return HOLDS if value <= bound else FAILS


def ratio(result: RunResult, name: str) -> str:
    return f"{result.metric(f'{name}_ratio').value:.3f}"


def megabytes(result: RunResult, name: str) -> str:
    return f"{result.metric(name).value / 1e6:,.1f} MB"

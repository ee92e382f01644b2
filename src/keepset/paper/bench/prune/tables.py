"""What pruning saves of a prefill, a question and memory, beside what the budget allows."""

from keepset.paper.bench.prune.run import DENSE, PHASES, ROUTER, SIDES, Side
from keepset.paper.bench.timing import MEDIAN, bracketed, shown_seconds
from keepset.paper.claim import FAILS, HOLDS
from keepset.paper.result import At, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table

MUST = Side("global", 0.1)
PREFILL_BOUND = 0.2
BYTES_BOUND = 0.12


def prune_table(results: Results) -> Table:
    """Per model and length: dense as it is, the router's share, and every mode and budget as multiples of dense."""
    rows: list[tuple[str, ...]] = []
    for run in in_order(results):
        rows += [(), dense_row(results, run), router_row(results, run)]
        rows += [side_row(results, run, side) for side in SIDES.values() if side != DENSE]
    run = results.run()
    first = run.config
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
            f"{run.scale.capitalize()} scale; n documents ({first['task']}, blocks of "
            f"{first['length'] // first['blocks']} tokens) in one run, every side on every document in rotating order; "
            "CPU seconds of one thread. Read: a question and its answer, "
            f"{first['question_tokens'] + first['answer_tokens']} tokens in one forward. Answer: a question of "
            f"{first['question_tokens']} tokens and {first['answer_tokens']} greedy ones.",
            "Router: untrained (weights do not change the cost), the first layers of the model included; its row is "
            "its share of the dense prefill. Peak memory: resident, a fresh process per side, router included, n = 1.",
            *(must_show(results, run) for run in in_order(results)),
        ),
    )


def in_order(results: Results) -> list[RunResult]:
    return sorted(results.runs.values(), key=lambda run: (run.config["model"], run.config["length"]))


def head(run: RunResult, side: str) -> tuple[str, str, str, str]:
    return run.config["model"], f"{run.config['length']:,}", side, str(run.counts["rounds"])


def dense_row(results: Results, run: RunResult) -> tuple[str, ...]:
    at: At = {**run.at, **DENSE.at}
    prefill, read, answer = (
        f"{shown_seconds(results.value('seconds', **at, phase=phase, quantile=MEDIAN))} s" for phase in PHASES
    )
    tokens = f"{results.value('tokens', **at, quantile=MEDIAN):,.0f}"
    kept = megabytes(results.value("kv_bytes", **at, quantile=MEDIAN))
    peak, growth = (megabytes(results.value(what, **at)) for what in ("peak_bytes", "peak_growth_bytes"))
    return (*head(run, "dense"), tokens, prefill, prefill, read, answer, kept, peak, growth)


def router_row(results: Results, run: RunResult) -> tuple[str, ...]:
    layers = f"router, {run.config['router_layers']} of {run.config['layers']} layers"
    share = bracketed(results, "seconds_ratio", 3, **run.at, side=ROUTER, phase="prefill")
    return (*head(run, layers), "", share, *[""] * 6)


def side_row(results: Results, run: RunResult, side: Side) -> tuple[str, ...]:
    at: At = {**run.at, **side.at}
    return (
        *head(run, f"{side.mode}, {100 * side.budget:g} %"),
        f"{results.value('tokens_ratio', **at, quantile=MEDIAN):.3f}",
        *(
            bracketed(results, "seconds_ratio", 3, **at, phase=phase)
            for phase in ("prefill", "prefill_and_router", "read", "answer")
        ),
        f"{results.value('kv_bytes_ratio', **at, quantile=MEDIAN):.3f}",
        *(f"{results.value(what, **at):.3f}" for what in ("peak_bytes_ratio", "peak_growth_bytes_ratio")),
    )


def must_show(results: Results, run: RunResult) -> str:
    """The two bounds the pruner is held to, and what the router adds to the first."""
    at: At = {**run.at, **MUST.at, "quantile": MEDIAN}
    prefill, both = (results.value("seconds_ratio", **at, phase=phase) for phase in ("prefill", "prefill_and_router"))
    kept, limit = (results.value(what, **at) for what in ("kv_bytes_ratio", "tokens_ratio"))
    return (
        f"{run.config['model']}, {run.config['length']:,} tokens, {MUST.mode} at {100 * MUST.budget:g} %: "
        f"prefill at most {PREFILL_BOUND:g} × dense {held(prefill, PREFILL_BOUND)} ({prefill:.3f}), with the router "
        f"{held(both, PREFILL_BOUND)} ({both:.3f}); keys and values at most {BYTES_BOUND:g} × dense "
        f"{held(kept, BYTES_BOUND)} ({kept:.3f}, of which the limit is {limit:.3f})."
    )


def held(value: float, bound: float) -> str:
    return HOLDS if value <= bound else FAILS


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.1f} MB"

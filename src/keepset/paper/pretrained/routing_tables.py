"""``tab:sink`` and ``tab:budget-sink``."""

from keepset.paper.pretrained.examples import SINGLE, TITLES
from keepset.paper.pretrained.lessons import ARMS, IMITATION, arm_name
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, paper_rows
from keepset.paper.pretrained.routers import WORDS
from keepset.paper.pretrained.routing_claims import RANDOM
from keepset.paper.pretrained.settings import BUDGET, BUDGETS, RECORDS
from keepset.paper.result import At
from keepset.paper.results import Results
from keepset.paper.table import Table

PAPER_SINK = """
Qwen2.5-3B | unique, 16 | 150 | 1.00 | 0.45 | 0.79 | 0.99 | 0.96 | - | 0.40
Qwen2.5-3B | unique, 32 | 150 | 1.00 | 0.31 | 0.71 | 1.00 | 0.97 | - | 0.29
Qwen2.5-3B | conflicting, 16 | 150 | 0.99 | 0.75 | 0.99 | 0.99 | 0.99 | - | 0.32
Qwen2.5-3B | conflicting, 32 | 150 | 0.99 | 0.25 | 0.97 | 0.97 | 0.97 | - | 0.29
Qwen2.5-7B | unique, 16 | 150 | 1.00 | 0.69 | 0.89 | 0.99 | 0.95 | - | 0.36
Qwen2.5-7B | unique, 32 | 150 | 1.00 | 0.27 | 0.87 | 1.00 | 0.99 | - | 0.35
Qwen2.5-7B | conflicting, 16 | 150 | 0.98 | 0.87 | 0.97 | 0.97 | 0.97 | - | 0.25
Qwen2.5-7B | conflicting, 32 | 150 | 0.96 | 0.23 | 0.93 | 0.93 | 0.93 | - | 0.24
"""
PAPER_BUDGET = """
Qwen2.5-3B | unique, k = 1 | 150 | 1.00 | 0.29 | 0.53 | 0.99 | 0.97 | - | - | -
Qwen2.5-3B | unique, k = 2 | 150 | 1.00 | 0.45 | 0.79 | 0.99 | 0.96 | - | - | -
Qwen2.5-3B | unique, k = 4 | 150 | 1.00 | 0.90 | 0.93 | 1.00 | 0.97 | - | - | -
Qwen2.5-3B | conflicting, k = 1 | 150 | 0.99 | 0.19 | 0.75 | 0.91 | 0.91 | - | 0.24 | 0.00
Qwen2.5-3B | conflicting, k = 2 | 150 | 0.99 | 0.75 | 0.99 | 0.99 | 0.99 | - | 0.33 | 0.75
Qwen2.5-3B | conflicting, k = 4 | 150 | 0.99 | 0.99 | 0.97 | 0.96 | 0.95 | - | 0.39 | 1.00
Qwen2.5-7B | unique, k = 1 | 150 | 1.00 | 0.29 | 0.76 | 0.99 | 0.97 | - | - | -
Qwen2.5-7B | unique, k = 2 | 150 | 1.00 | 0.69 | 0.89 | 0.99 | 0.95 | - | - | -
Qwen2.5-7B | unique, k = 4 | 150 | 1.00 | 0.99 | 0.95 | 1.00 | 0.97 | - | - | -
Qwen2.5-7B | conflicting, k = 1 | 150 | 0.98 | 0.19 | 0.93 | 0.91 | 0.91 | - | 0.21 | 0.00
Qwen2.5-7B | conflicting, k = 2 | 150 | 0.98 | 0.87 | 0.97 | 0.97 | 0.97 | - | 0.31 | 0.87
Qwen2.5-7B | conflicting, k = 4 | 150 | 0.98 | 0.97 | 0.97 | 0.95 | 0.95 | - | 0.36 | 1.00
Yi-1.5-9B | unique, k = 1 | 150 | 1.00 | 0.25 | 0.65 | 1.00 | 0.96 | - | - | -
Yi-1.5-9B | unique, k = 2 | 150 | 1.00 | 0.61 | 0.94 | 1.00 | 0.96 | - | - | -
Yi-1.5-9B | unique, k = 4 | 150 | 1.00 | 0.99 | 0.97 | 1.00 | 0.96 | - | - | -
Yi-1.5-9B | conflicting, k = 1 | 150 | 1.00 | 0.18 | 0.85 | 0.87 | 0.87 | - | 0.23 | 0.00
Yi-1.5-9B | conflicting, k = 2 | 150 | 1.00 | 0.83 | 0.95 | 0.95 | 0.95 | - | 0.25 | 0.83
Yi-1.5-9B | conflicting, k = 4 | 150 | 1.00 | 0.95 | 0.93 | 0.99 | 0.95 | - | 0.41 | 1.00
"""
COLUMNS = ("Imitation", "Imitation, no sink", "Causal", "Causal, no sink", "BM25", "Random")


def cells(results: Results, model: str, task: str, records: int, k: int) -> list[str]:
    """n, dense, and every arm at one budget; nothing where it was not run."""
    at: At = {"model": model, "task": task, "records": records}
    if count(results, "dense", **at) == "0":
        return []
    arms = [cell(results, "routed", arm=arm, k=k, **at) for arm in (*ARMS.values(), WORDS, RANDOM)]
    return [count(results, "dense", **at), cell(results, "dense", **at), *arms]


def lessons_note(results: Results) -> str:
    lessons = {str(run.at["model"]): run.counts["lessons"] for run in results.runs.values()}
    learned = ", ".join(f"{model} {n:,}" for model, n in lessons.items())
    return (
        f"Routers learned from {learned} lessons (the paper: 2,000), one start each: intervals hold examples alone. "
        "No sink: record 0 is in no target, never kept. BM25: the records that share most words with the question."
    )


def sink_table(results: Results) -> Table:
    """``tab:sink``."""
    groups = []
    for model in models(results):
        rows = [
            (model, f"{TITLES[task]}, {records}", *found)
            for task in SINGLE
            for records in (RECORDS, 2 * RECORDS)
            if (found := cells(results, model, task, records, BUDGET))
        ]
        groups.append(rows)
    return Table(
        name="tab-sink",
        caption=(
            "Record routers at a budget of two records, trained on 16: accuracy when only what the router keeps is "
            "visible, with the first-token sink kept and removed."
        ),
        columns=("Model", "Condition", "n", "Dense", *COLUMNS),
        rows=(*grouped(groups), *paper_rows(PAPER_SINK)),
        notes=(INTERVAL_NOTE, lessons_note(results)),
    )


def budget_table(results: Results) -> Table:
    """``tab:budget-sink``."""
    groups = []
    for model in models(results):
        rows = []
        for task in SINGLE:
            for k in BUDGETS:
                found = cells(results, model, task, RECORDS, k)
                at: At = {"model": model, "task": task, "records": RECORDS}
                recall = cell(results, "recall", arm=arm_name(IMITATION, "kept"), k=k, **at)
                if found:
                    rows.append((model, f"{TITLES[task]}, k = {k}", *found, recall))
        groups.append(rows)
    return Table(
        name="tab-budget-sink",
        caption=(
            "Record routers against the budget, 16 records, with the first-token sink kept and removed. Recall: how "
            "often the sink-keeping imitation router keeps the record that the answer rests on."
        ),
        columns=("Model", "Condition", "n", "Dense", *COLUMNS, "Recall"),
        rows=(*grouped(groups), *paper_rows(PAPER_BUDGET)),
        notes=(INTERVAL_NOTE, lessons_note(results)),
    )

"""Teacher accuracy per task and seed, beside the paper's (``tab:app-teachers``), and per condition."""

from keepset.paper.result import RunResult
from keepset.paper.table import Table

SINGLE_RECORD = ("unique", "latest_write", "duplicate")
TASKS = {
    "single-hop": SINGLE_RECORD,
    "five-task": (*SINGLE_RECORD, "multihop", "aggregation"),
    "hardened": (*SINGLE_RECORD, "multihop_hardened", "aggregation"),
}

PAPER = {
    ("single-hop", "unique"): (0.98, 0.94, 0.97, 0.90, 0.92),
    ("single-hop", "latest_write"): (0.97, 0.97, 0.96, 0.94, 0.93),
    ("single-hop", "duplicate"): (0.99, 0.97, 0.99, 0.97, 0.97),
    ("five-task", "unique"): (0.97, 0.95, 0.99, 0.89, 0.91),
    ("five-task", "latest_write"): (0.99, 0.98, 1.00, 0.94, 0.97),
    ("five-task", "duplicate"): (0.99, 0.99, 1.00, 0.96, 0.97),
    ("five-task", "multihop"): (0.98, 0.97, 1.00, 0.07, 0.95),
    ("five-task", "aggregation"): (0.90, 0.92, 0.92, 0.93, 0.87),
}
"""The paper's Table ``tab:app-teachers``, seeds 0 to 4."""


def teachers_table(results: list[RunResult]) -> Table:
    """One row per mixture and task, one column per seed."""
    by_run = {(r.config["mixture"], r.config["seed"]): r for r in results}
    seeds = sorted({seed for _, seed in by_run})
    rows: list[tuple[str, ...]] = []
    for mixture, tasks in TASKS.items():
        runs = {seed: by_run[mixture, seed] for seed in seeds if (mixture, seed) in by_run}
        if not runs:
            continue
        if rows:
            rows.append(())
        for task in tasks:
            ours = [f"{runs[seed].metric(task).value:.3f}" if seed in runs else "" for seed in seeds]
            paper = PAPER.get((mixture, task))
            theirs = f"{min(paper):.2f}–{max(paper):.2f}" if paper else ""
            rows.append((mixture, task, *ours, theirs))
    examples = sorted({r.counts["examples"] for r in results})
    half_width = max(
        ((m.high or 0) - (m.low or 0)) / 2 for r in results for m in r.metrics if m.name in TASKS[r.config["mixture"]]
    )
    return Table(
        name="tab-app-teachers",
        caption=(
            "Final teacher accuracy per task and seed, single query, full context, scale small. "
            "Last column: range over the paper's five seeds."
        ),
        columns=("Mixture", "Task", *(f"seed {seed}" for seed in seeds), "paper"),
        rows=tuple(rows),
        notes=(
            f"n = {', '.join(map(str, examples))} examples per cell; "
            f"the widest 95 % interval in the table is ±{half_width:.3f}.",
        ),
    )


def conditions_table(results: list[RunResult]) -> Table:
    """Mean accuracy over seeds, and the range, for every evaluation condition."""
    mixtures = [mixture for mixture in TASKS if any(r.config["mixture"] == mixture for r in results)]
    fullest = max(results, key=lambda result: len(result.metrics))
    rows = []
    for metric in fullest.metrics:
        cells = []
        for mixture in mixtures:
            runs = [r for r in results if r.config["mixture"] == mixture]
            values = [m.value for r in runs for m in r.metrics if m.name == metric.name]
            mean = f"{sum(values) / len(values):.3f} ({min(values):.2f}–{max(values):.2f})" if values else ""
            cells.append(mean if len(values) in (0, len(runs)) else f"{mean}, {len(values)} of {len(runs)}")
        rows.append((metric.name, str(metric.n), *cells))
    counts = {mixture: sum(r.config["mixture"] == mixture for r in results) for mixture in mixtures}
    return Table(
        name="teacher-conditions",
        caption="Dense accuracy on every condition: mean over teachers, range in brackets, scale small.",
        columns=("Condition", "n", *(f"{mixture} ({counts[mixture]} teachers)" for mixture in mixtures)),
        rows=tuple(rows),
        notes=("Conditions a mixture does not train on are listed too: they measure generalisation.",),
    )

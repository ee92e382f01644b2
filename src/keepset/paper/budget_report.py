"""Accuracy against the block budget when the annotated blocks are kept first: ``fig:budget``."""

from statistics import fmean

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.result import RunResult
from keepset.paper.table import Table

CONDITIONS = {"unique": "Unique retrieval", "multihop": "Multi-hop", "aggregation": "Aggregation"}
LINES = {"unique": ("causal", "o-"), "multihop": ("attention", "s--"), "aggregation": ("ablation", "^:")}
"""Condition -> colour, style."""
CONSTANT_ANSWER = 0.2
"""Counts are 1 to 5, uniform."""
SHOWN = (1, 2, 3, 4, 5, 8, 12)
"""Rows of the table; the last two budgets follow."""


def budget_table(results: list[RunResult]) -> Table:
    """Some budgets: mean over teachers, range over teachers."""
    n_blocks = results[0].config["n_blocks"]
    rows = []
    for k in (*(k for k in SHOWN if k < n_blocks - 1), n_blocks - 1, n_blocks):
        cells = []
        for condition in CONDITIONS:
            values = at_budget(results, condition, k)
            cells.append(f"{fmean(values):.2f} [{min(values):.2f}–{max(values):.2f}]")
        rows.append((str(k), *cells))
    return Table(
        name="budget",
        caption=(
            "Accuracy against the number of blocks kept, annotated blocks first, both groups in position order: mean "
            "over teachers, range over teachers in brackets. The paper's figure: unique retrieval flat from one block, "
            "multi-hop up at three, aggregation at chance (0.2, the share of a constant answer) until all blocks."
        ),
        columns=("Blocks kept", *CONDITIONS.values()),
        rows=tuple(rows),
        notes=(
            f"Small scale; n = {results[0].counts['examples']} examples per teacher and task, {len(results)} five-task "
            f"teachers, contexts of {n_blocks} blocks.",
        ),
    )


def budget_figure(results: list[RunResult]) -> str:
    """Every budget: mean over teachers, the range as a band."""
    budgets = list(range(1, results[0].config["n_blocks"] + 1))
    figure = new_figure(width=5.5)
    axes = figure.axes[0]
    for condition, (colour, style) in LINES.items():
        values = [at_budget(results, condition, k) for k in budgets]
        axes.plot(budgets, [fmean(v) for v in values], style, color=COLOURS[colour], label=CONDITIONS[condition])
        lows, highs = [min(v) for v in values], [max(v) for v in values]
        axes.fill_between(budgets, lows, highs, color=COLOURS[colour], alpha=0.15, linewidth=0)
    axes.axhline(CONSTANT_ANSWER, color=COLOURS["other"], linewidth=0.8, linestyle="--", label="a constant count")
    axes.set_xlabel("blocks kept")
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1.02)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(figure)


def at_budget(results: list[RunResult], condition: str, k: int) -> list[float]:
    """One value per teacher."""
    return [result.metric(f"{condition}_k{k}").value for result in results]

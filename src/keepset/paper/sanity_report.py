"""The sanity anchors of Section 2.2 over all teachers, beside the paper's numbers."""

from keepset.paper.result import RunResult
from keepset.paper.table import Table

PAPER = {
    "hiding_annotated_flips": "0.98",
    "hiding_random_other_flips": "0.00",
    "mask_and_filler_agree": "1.00",
    "top_attended_is_annotated_max_heads": "0.99",
    "top_attended_is_annotated_mean_heads": "0.99",
}
"""Section 2.2; it gives one number for the top attended block and does not name the pooling."""


def sanity_table(results: list[RunResult]) -> Table:
    """One row per anchor: pooled share, range over teachers, examples."""
    names = list(dict.fromkeys(metric.name for result in results for metric in result.metrics))
    rows = []
    for name in names:
        found = [metric for result in results for metric in result.metrics if metric.name == name]
        total = sum(metric.n for metric in found)
        pooled = sum(metric.value * metric.n for metric in found) / total
        low, high = min(metric.value for metric in found), max(metric.value for metric in found)
        rows.append(
            (
                name.replace("_", " "),
                PAPER.get(name, ""),
                f"{pooled:.3f}",
                f"{low:.3f}–{high:.3f}",
                str(len(found)),
                str(total),
            )
        )
    return Table(
        name="sanity-anchors",
        caption=(
            "Sanity anchors of Section 2.2 on the small teachers: share of examples, pooled over teachers, "
            "with the range over teachers."
        ),
        columns=("Anchor", "paper", "ours", "range", "teachers", "n"),
        rows=tuple(rows),
        notes=(
            "Solved examples only, except mask against filler, which counts all.",
            "A flip can fail by chance here: with the record hidden, a guess among 16 values is right "
            "one time in sixteen or more often.",
        ),
    )

"""Results as tables in a terminal."""

from collections.abc import Sequence

from rich.table import Table as RichTable

from keepset.paper.result import Metric


def metrics_table(title: str, metrics: Sequence[Metric]) -> RichTable:
    """What was measured, a column per coordinate, value, 95 % interval and n."""
    coordinates = list(dict.fromkeys(name for metric in metrics for name in metric.at))
    table = RichTable(title=title)
    for column in ("measured", *coordinates):
        table.add_column(column)
    for column in ("value", "95 % interval", "n"):
        table.add_column(column, justify="right")
    for metric in metrics:
        places = [str(metric.at.get(name, "")) for name in coordinates]
        interval = "" if metric.low is None or metric.high is None else f"{metric.low:.3f} to {metric.high:.3f}"
        table.add_row(metric.what, *places, f"{metric.value:.3f}", interval, str(metric.n))
    return table

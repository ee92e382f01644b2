"""Results as tables in a terminal."""

from collections.abc import Iterable

from rich.table import Table as RichTable

from keepset.paper.result import Metric


def metrics_table(title: str, metrics: Iterable[Metric]) -> RichTable:
    """Name, value, 95 % interval and n."""
    table = RichTable(title=title)
    table.add_column("condition")
    table.add_column("accuracy", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("n", justify="right")
    for metric in metrics:
        interval = "" if metric.low is None or metric.high is None else f"{metric.low:.3f} to {metric.high:.3f}"
        table.add_row(metric.name, f"{metric.value:.3f}", interval, str(metric.n))
    return table

"""Commands that work through a data set: their options, and how they end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from keepset.cli.shared import say

if TYPE_CHECKING:
    from keepset.jobs import Finished

SHARD_ROWS = 256
"""As in ``keepset.jobs.runner``, which imports torch."""
ShardRows = Annotated[int, typer.Option(min=1, help="Rows per Parquet file.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes with a model each; with ray, actors: one per GPU or CPU.")
]
Engine = Annotated[str, typer.Option(help="local or ray.")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster; one of this machine if none.")]
Split = Annotated[str | None, typer.Option(help="Of a data set; the only one, or train.")]


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, a signal that stops the job is one line and its exit code."""
    from keepset.jobs import Terminated

    try:
        yield
    except KeyboardInterrupt as stop:
        Console(stderr=True).print("stopped; what was finished stays: run the same command again to go on")
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from stop


def say_finished(done: "Finished", what: str, out: Path) -> None:
    rejects = f"; {done.rejected:,} rejected, see {done.rejects}" if done.rejected else ""
    say(f"{done.rows:,} {what} in {out}{rejects} ({done.seconds:.0f} s)")


def columns_given(given: list[str]) -> dict[str, str]:
    """Field -> column, from field=column."""
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (field, _, name) in zip(given, pairs, strict=True) if not field or not name]
    if wrong:
        raise ValueError(f"column: expected a field and the column's name, like question=query, got {wrong[0]!r}")
    return {field: name for field, _, name in pairs}

"""How far a job is."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keepset.jobs.folder import JobFolder
from keepset.jobs.outcome import GroupDone
from keepset.terminal import print_line


class Display:
    """Rows done, rows rejected and the time left, on a terminal; elsewhere only what to expect."""

    def __init__(self, folder: JobFolder[Any, Any], workers: int) -> None:
        self.plan = folder.plan
        self.folder = folder
        self.workers = workers
        self.new = 0
        self._estimated = False
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(folder.kind.doing),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rejected]} rejected"),
            TimeRemainingColumn(),
            console=self._console,
            speed_estimate_period=600,  # seconds: a group of long contexts takes minutes
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> "Display":
        done, shards = self.folder.done, len(self.plan.shards)
        self._say(f"{self.plan.source.name}: rows {self.plan.rows:,}, shards {shards:,}, done before {done:,}")
        self._task = self._progress.add_task("", total=self.plan.rows, completed=done, rejected=self.folder.rejected)
        self._progress.start()
        self._started = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, group: GroupDone[Any]) -> None:
        """A group was done; the first one with records tells what the others will take."""
        self.new += group.outcome.rows
        self._progress.update(self._task, advance=group.outcome.rows, rejected=self.folder.rejected)
        left = self.plan.rows - self.folder.done
        if group.outcome.records and left and not self._estimated:
            self._estimated = True
            self._say(f"{expectation(group, self.workers, left)} for the {left:,} left")

    def _say(self, text: str) -> None:
        print_line(self._console, text)


def expectation(group: GroupDone[Any], workers: int, rows: int) -> str:
    """What a group took, and what that makes for ``rows`` more."""
    n = group.outcome.rows
    seconds = group.seconds / n
    together = f" with {workers} workers" if workers > 1 else ""
    spent = ", ".join(f"{amount / n:,.1f} {unit}" for unit, amount in group.spent.items())
    minutes = rows * seconds / workers / 60
    return f"{n} rows took {spent} and {seconds:.2g} seconds each: about {minutes:.1f} minutes{together}"

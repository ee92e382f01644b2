"""Running a job over rows, by one worker or many: every row once, however often it is stopped."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from keepset.jobs.display import Display
from keepset.jobs.engines import check_engine, open_pool
from keepset.jobs.folder import Files, JobFolder
from keepset.jobs.kinds import J, Kind
from keepset.jobs.outcome import R
from keepset.jobs.plan import ShardPlan
from keepset.jobs.pool import Start

SHARD_ROWS = 256


class Terminated(KeyboardInterrupt):
    """SIGTERM: stops as Ctrl-C does."""


@dataclass(frozen=True)
class Where:
    """Who does the work."""

    workers: int | None = None
    """Processes, or actors; one here without a number, on a cluster one for each GPU or CPU."""
    engine: str = "local"
    address: str | None = None
    """Of a Ray cluster."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_engine(self.engine, self.workers, self.address)


@dataclass(frozen=True)
class Finished:
    """A finished job."""

    folder: Path
    rows: int
    """Rows of which something was made."""
    rejected: int
    """Rows in ``rejects``."""
    new: int
    """How many of both this run did."""
    seconds: float
    """Of this run."""

    @property
    def rejects(self) -> Path:
        return self.folder / "rejects.jsonl"


def run_job(
    kind: Kind[J, R],
    plan: ShardPlan,
    start: Start[Any, Any],
    job: Callable[[Any], J],
    out: Path,
    where: Where,
    files: Files[R] | None = None,
) -> Finished:
    """Does what is left of the job in ``out``; ``job`` says what it is, given what the workers say they are."""
    started = time.monotonic()
    with open_pool(start, where.engine, where.workers, where.address, where.device) as pool:
        folder = JobFolder(out, kind, job(pool.identity), plan, files)
        with folder.open(), Display(folder, pool.workers) as display:
            for group, done in pool.run(folder.groups()):
                folder.append(group, done.outcome)
                display.advance(done)
    finished = Finished(folder.path, folder.records, folder.rejected, display.new, time.monotonic() - started)
    if not finished.rows:
        raise ValueError(
            f"{plan.source.name}: expected rows that can be {kind.done}, got {finished.rejected:,} rejects, see "
            f"{finished.rejects}; the first one: {folder.first_reason()}"
        )
    return finished


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM unwinds as Ctrl-C does. Only the main thread can be asked."""

    def stop(signal_number: int, frame: object) -> NoReturn:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

"""What it takes: peak memory of the process that writes, and rows per second with more workers."""

import json
import tempfile
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from keepset.jobs import open_pool, open_source, plan_shards
from keepset.jobs.folder import JobFolder
from keepset.jobs.kinds import LABELS
from keepset.jobs.label_data import label_job
from keepset.jobs.labelling import LabelRow, LabelWorker, StartLabelling
from keepset.jobs.outcome import GroupDone, Outcome
from keepset.jobs.plan import GROUP, RowGroup
from keepset.jobs.pool import Crew, Event, Here, Pool
from keepset.paper.bench.models import tiny_model
from keepset.paper.bench.peak import forget_peak, peak_bytes
from keepset.paper.bench.reliability.folders import SHARD_ROWS, facts, write_rows
from keepset.paper.bench.timing import one_thread
from keepset.text.jsonl import Line

MEMORY_SHARD_ROWS = 256
Labelling = Pool[RowGroup, GroupDone[LabelRow]]


@dataclass(frozen=True)
class StartRemembering(StartLabelling):
    """Workers that label one row and give its labels to all: what is left is the work of the process that writes."""

    def __call__(self, number: int) -> LabelWorker:
        return Remembering(super().__call__(number).labeller)


class Remembering(LabelWorker):
    known: GroupDone[LabelRow] | None = None

    def __call__(self, group: RowGroup) -> GroupDone[LabelRow]:
        self.known = self.known or super().__call__(RowGroup(0, 0, group.lines[:1]))
        (record,) = self.known.outcome.records
        records = [record.model_copy(update={"line": line.number, "id": str(line.number)}) for line in group.lines]
        return self.known._replace(outcome=Outcome(records, []))


def label_all(data: Path, out: Path, start: StartLabelling, pool: Labelling, shard_rows: int) -> None:
    """As the command does it, without its display."""
    plan = plan_shards(open_source(data), shard_rows)
    folder = JobFolder(out, LABELS, label_job(plan, start, pool.identity, shard_rows), plan)
    with folder.open():
        for group, done in pool.run(folder.groups()):
            folder.append(group, done.outcome)


def print_peak(rows: int) -> None:
    """Peak bytes and CPU seconds of labelling ``rows`` rows with remembered labels, as JSON."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        data = Path(folder) / "data.jsonl"
        with data.open("w") as file:
            file.writelines(json.dumps(facts(i)) + "\n" for i in range(rows))
        start = StartRemembering(tiny_model(), "paragraph", "evidence", {}, "cpu")
        forget_peak()
        started = time.process_time()
        with Labelling(Here(start), 1) as pool:
            label_all(data, Path(folder) / "out", start, pool, MEMORY_SHARD_ROWS)
        seconds = time.process_time() - started
    print(json.dumps({"peak_bytes": peak_bytes(), "seconds": seconds}))


def seconds_per_row(rows: int, workers: int) -> float:
    """Wall clock of a whole job, without the start of the workers."""
    start = StartLabelling(tiny_model(), "paragraph", "evidence", {}, "cpu")
    with tempfile.TemporaryDirectory() as folder, one_thread(), open_pool(start, "local", workers) as pool:
        first = RowGroup(0, 0, tuple(Line(i + 1, json.dumps(facts(i)).encode()) for i in range(GROUP)))
        while pool.ready < workers:
            list(pool.run([first]))
        data = write_rows(Path(folder) / "data.jsonl", rows)
        started = time.monotonic()
        label_all(data, Path(folder) / "out", start, pool, SHARD_ROWS)
        return (time.monotonic() - started) / rows


class Simulated(Crew):
    """Workers of a clock of its own: each group takes one ``group_seconds``, and the writer ``writer_seconds``."""

    def __init__(self, group_seconds: float, writer_seconds: float) -> None:
        self.now = 0.0
        self._group_seconds = group_seconds
        self._writer_seconds = writer_seconds
        self._running: list[tuple[float, int]] = []
        self._ready: deque[Event] = deque()

    def launch(self, number: int) -> Hashable:
        self._ready.append(Event(number, "ready", "simulated"))
        return number

    def send(self, worker: Any, task: Any) -> None:
        heappush(self._running, (self.now + self._group_seconds, worker))

    def wait(self) -> Event:
        if self._ready:
            return self._ready.popleft()
        ends, worker = heappop(self._running)
        self.now = max(self.now, ends) + self._writer_seconds
        return Event(worker, "done")

    def dismiss(self, worker: Any) -> None:
        """There is nothing to end."""


def simulated_seconds(workers: int, rows: int, row_seconds: float, writer_row_seconds: float) -> float:
    """How long ``rows`` take on the simulated clock, given out by the pool that gives out real ones."""
    crew = Simulated(GROUP * row_seconds, GROUP * writer_row_seconds)
    with Pool[int, None](crew, workers) as pool:
        for _ in pool.run(range(-(-rows // GROUP))):
            pass
    return crew.now

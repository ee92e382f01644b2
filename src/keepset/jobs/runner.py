"""Labelling a data set in one process: every row once, however often it is stopped."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.jobs.folder import LabelFolder
from keepset.jobs.labelling import Labeller, Outcome, label_shard
from keepset.jobs.manifest import LabelJob
from keepset.jobs.plan import Shard, ShardPlan, plan_shards
from keepset.jobs.rules import RULES
from keepset.labels.support import SupportEffort, check_support_effort
from keepset.models.fingerprint import fingerprint, weights_fingerprint
from keepset.models.loading import load_model
from keepset.models.quantize import Quantize, quantization
from keepset.text.split import split_blocks
from keepset.versions import package_versions

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


class Terminated(KeyboardInterrupt):
    """SIGTERM: stops as Ctrl-C does."""


@dataclass(frozen=True)
class Labelled:
    """A finished job."""

    folder: Path
    rows: int
    """Rows with labels."""
    rejected: int
    """Rows in ``rejects.jsonl``."""
    new: int
    """How many of both this run did."""
    seconds: float
    """Of this run."""


def label(
    data: str | Path,
    model: str | Path | Loaded,
    out: str | Path,
    blocks: str | int = "sentence",
    effort: str = "evidence",
    shard_rows: int = 256,
    device: str | torch.device = "cpu",
    quantize: Quantize | None = None,
) -> Labelled:
    """Evidence sets, effects and attention for every row of a JSONL file, as Parquet tables in ``out``.

    A row is ``context`` (or ``blocks``), ``question``, ``answer`` and, if wanted, ``candidates`` and ``id``. ``model``
    is anything ``load_model`` takes, or a model and its tokenizer, which stay on their device. ``blocks`` is sentence,
    paragraph, line or a number of tokens; ``effort`` evidence, exact, grouped or certified. The same call again goes on
    where the last one stopped. ``quantize`` is ``load_model``'s, where ``model`` is a name.
    """
    started = time.monotonic()
    check_support_effort(effort)
    with terminable():
        plan = plan_shards(Path(data), shard_rows)
        name, (loaded, tokenizer) = _load(model, device, quantize)
        split_blocks("", blocks, tokenizer)  # a wrong rule would reject every row
        job = LabelJob(
            data=plan.path.name,
            data_sha256=plan.sha256,
            model=name,
            model_fingerprint=fingerprint(loaded, tokenizer),
            weights_fingerprint=weights_fingerprint(loaded),
            dtype=str(loaded.dtype).removeprefix("torch."),
            quantize=quantization(loaded),
            blocks=str(blocks),
            effort=effort,
            rule=RULES,
            shard_rows=shard_rows,
            versions=package_versions(),
        )
        folder = LabelFolder(Path(out), job, plan)
        with folder.open(), Display(plan, folder) as display:
            labeller = Labeller(loaded, tokenizer, blocks, cast(SupportEffort, effort))
            for shard in folder.unfinished():
                _label_shard(shard, folder, labeller, display)
    return Labelled(folder.path, folder.labelled, folder.rejected, display.new, time.monotonic() - started)


def _label_shard(shard: Shard, folder: LabelFolder, labeller: Labeller, display: "Display") -> None:
    begun = folder.begun(shard)
    display.resume(begun)
    for outcome in label_shard(folder.plan, shard, labeller, skip=begun.rows):
        folder.append(shard, outcome)
        display.advance(outcome, labeller)
    folder.finish(shard)


class Display:
    """Rows done, rows rejected and the time left, on a terminal; elsewhere only what to expect."""

    def __init__(self, plan: ShardPlan, folder: LabelFolder) -> None:
        self.plan = plan
        self.folder = folder
        self.new = 0
        self._rejected = 0
        self._estimated = False
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("labelling"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rejected]} rejected"),
            TimeRemainingColumn(),
            console=self._console,
            speed_estimate_period=600,  # seconds: a group of long contexts takes minutes
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> "Display":
        done = self.folder.labelled + self.folder.rejected
        self._rejected = self.folder.rejected
        self._say(f"{self.plan.path}: rows {self.plan.rows:,}, shards {len(self.plan.shards):,}, done before {done:,}")
        self._task = self._progress.add_task("", total=self.plan.rows, completed=done, rejected=self._rejected)
        self._progress.start()
        self._started = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def resume(self, begun: Outcome) -> None:
        """Rows of a shard in work that an earlier run did."""
        self._count(begun)

    def advance(self, outcome: Outcome, labeller: Labeller) -> None:
        """A group was done; the first one with labels tells what the others will take."""
        self.new += outcome.rows
        self._count(outcome)
        if outcome.records and not self._estimated and not self._progress.finished:
            self._estimate(labeller)

    def _count(self, outcome: Outcome) -> None:
        self._rejected += len(outcome.rejects)
        self._progress.update(self._task, advance=outcome.rows, rejected=self._rejected)

    def _estimate(self, labeller: Labeller) -> None:
        self._estimated = True
        seconds = (time.monotonic() - self._started) / self.new
        left = self._progress.tasks[self._task].remaining or 0
        views, forwards = labeller.executor.cost.views / self.new, labeller.executor.cost.forwards / self.new
        self._say(
            f"the first {self.new} took {views:.0f} keep sets, {forwards:.1f} forwards and {seconds:.2g} seconds each: "
            f"about {left * seconds / 60:.1f} minutes for the {left:,.0f} left"
        )

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _load(model: str | Path | Loaded, device: str | torch.device, quantize: Quantize | None) -> tuple[str, Loaded]:
    if isinstance(model, str | Path):
        return str(model), load_model(model, device=device, quantize=quantize)
    loaded, tokenizer = model
    return loaded.config._name_or_path or type(loaded).__name__, (loaded, tokenizer)


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

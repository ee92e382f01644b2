"""Why hiding a record that is not needed flips some choices: how far ahead was the answer? Not in the paper.

    record_margins/<model>/conflicting-<part>      of solved examples, every record but the current one hidden in turn

If a hidden record moves every choice by much the same and only narrow ones flip, the flips say how surely the model
solves the task, not that it needs the record. If obsolete records flip more than others, it does need them.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from keepset.blocks import Example
from keepset.interventions import Fast, ForcedChoice, Probe, Reading, Score
from keepset.paper.claim import NOT_TESTED
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.examples import Task, draw
from keepset.paper.pretrained.judge import candidates
from keepset.paper.pretrained.pool import NOT_RUN, grouped, models, part_jobs
from keepset.paper.pretrained.settings import RECORDS, Setting, frozen
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import clustered_share, mean_of
from keepset.paper.table import Table, with_interval

NAME = "record_margins"
TASK: Task = "conflicting"
BANDS = ((0.0, 0.5), (0.5, 1.0), (1.0, float("inf")))
"""Nats by which the answer is ahead of the best other candidate: more than the first, at most the second."""
KINDS = ("obsolete", "other")
"""Of hidden records: earlier writes of the name that is asked for, and all that is not about it."""


class Ahead(ForcedChoice):
    """Scored by how much likelier the answer is than the best other candidate; right where that is positive."""

    def judge(self, example: Example, reading: Reading) -> Score:
        sums = [sum(log_probs) for log_probs in reading.log_probs]
        gold = sums.pop([tuple(candidate) for candidate in self.candidates(example)].index(example.answer))
        ahead = gold - max(sums)
        return Score(ahead, ahead > 0)


def jobs(scale: str) -> Jobs:
    """One result per model and part."""
    return part_jobs(scale, NAME, {TASK: (lambda setting: setting.weighed, partial(run, scale))})


def run(scale: str, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part."""
    started = time.monotonic()
    examples = draw(setting, TASK, RECORDS, numbers)
    probe = Probe(examples, Fast(frozen(setting)[0]), Ahead(candidates))
    metrics: list[Metric] = []
    for group in probe.groups(range(len(probe))):
        with probe.hold(group):
            everything = probe.score([(i, probe.blocks(i)) for i in group])
            solved = [(i, score.log_prob) for i, score in zip(group, everything, strict=True) if score.correct]
            others = {i: sorted(probe.blocks(i) - examples[i].evidence) for i, _ in solved}
            asks = [(i, probe.blocks(i) - {record}) for i, records in others.items() for record in records]
            scores = iter(probe.score(asks))
            for i, margin in solved:
                hidden = {record: next(scores) for record in others[i]}
                metrics += of_example(numbers[i], margin, hidden, examples[i].obsolete)
    counts = {"examples": len(examples), "tokens": probe.executor.cost.tokens}
    return record_result(NAME, scale, started, setting, TASK, RECORDS, metrics, counts, part=part)


def of_example(number: int, margin: float, hidden: dict[int, Score], obsolete: frozenset[int]) -> list[Metric]:
    """Its margin, how far a hidden record moves it, and the share of hidden records that flip the choice."""
    moved = fmean(abs(score.log_prob - margin) for score in hidden.values())
    metrics = [
        Metric(what="margin", at={"example": number}, value=margin, n=1),
        Metric(what="moved", at={"example": number}, value=moved, n=len(hidden)),
    ]
    for kind in KINDS:
        flips = [not score.correct for record, score in hidden.items() if (record in obsolete) == (kind == "obsolete")]
        metrics.append(Metric(what="flips", at={"example": number, "of": kind}, value=fmean(flips), n=len(flips)))
    return metrics


@dataclass(frozen=True)
class Solved:
    """One solved example."""

    margin: float
    moved: float
    flips: dict[str, tuple[int, int]]
    """Kind of record -> how many flipped it, of how many."""

    def of(self, kinds: Sequence[str]) -> tuple[int, int]:
        found = [self.flips[kind] for kind in kinds]
        return sum(flipped for flipped, _ in found), sum(n for _, n in found)


def solved_examples(results: Results, model: str) -> list[Solved]:
    """All parts."""
    found = []
    for number in results.coordinates("example", "margin"):
        at = {"model": model, "example": number}
        if results.select("margin", **at).empty:
            continue
        flips = {kind: results.metric("flips", of=kind, **at) for kind in KINDS}
        counts = {kind: (round(metric.value * metric.n), metric.n) for kind, metric in flips.items()}
        found.append(Solved(results.value("margin", **at), results.value("moved", **at), counts))
    return found


def flips(examples: Sequence[Solved], kinds: Sequence[str] = KINDS) -> Metric | None:
    """Share of hidden records that flip the choice, with an interval that knows which are of one example."""
    if not examples:
        return None
    flipped, sizes = zip(*(example.of(kinds) for example in examples), strict=True)
    return clustered_share("flips", flipped, sizes)


def within(examples: Sequence[Solved], band: tuple[float, float]) -> list[Solved]:
    return [example for example in examples if band[0] < example.margin <= band[1]]


def band_name(band: tuple[float, float]) -> str:
    low, high = band
    return f"more than {low:g}" if high == float("inf") else f"{low:g} to {high:g}"


def row(label: str, examples: Sequence[Solved]) -> tuple[str, ...]:
    shares = [flips(examples, kinds) for kinds in (KINDS, *((kind,) for kind in KINDS))]
    moved = mean_of("moved", [example.moved for example in examples]) if len(examples) > 1 else None
    cells = [with_interval(found) if found else NOT_RUN for found in (moved, *shares)]
    return (label, str(len(examples)), *cells)


def margins_table(results: Results) -> list[Table]:
    """By how far ahead the answer was."""
    groups = []
    for model in models(results):
        examples = solved_examples(results, model)
        bands = [row(band_name(band), within(examples, band)) for band in BANDS]
        groups.append([(model, *cells) for cells in (*bands, row("any", examples))])
    table = Table(
        name="tab-record-margins",
        caption=(
            "Which solved choices flip when a record that is not the current one is hidden: conflicting facts, 16 "
            "records, every other record hidden in turn, by how far the answer was ahead with everything visible."
        ),
        columns=(
            "Model",
            "Ahead by (nats)",
            "Solved",
            "Moved by (nats)",
            "Flips",
            "obsolete record hidden",
            "other record hidden",
        ),
        rows=tuple(grouped(groups)),
        notes=(
            "Ahead: log-probability of the answer minus that of the best other candidate. Moved: how much hiding one "
            "record changes that, mean of absolute values. Square brackets: 95 % interval over examples. -: nothing to "
            "count.",
        ),
    )
    return [table] if groups else []


def why_random_records_flip(results: Results, model: str) -> str:
    """What was found of one model, in a sentence; "not tested" where nothing was run."""
    examples = solved_examples(results, model)
    found = [(band, within(examples, band)) for band in BANDS]
    shares = [
        f"{with_interval(share)} of hidden records flip a choice that was ahead by {band_name(band)} nats "
        f"({len(chosen)} solved), each moving it by {fmean(example.moved for example in chosen):.2f}"
        for band, chosen in found
        if (share := flips(chosen))
    ]
    return "; ".join(shares) or NOT_TESTED


EXPERIMENT = Experiment(
    NAME,
    place=74,
    jobs=jobs,
    reports=(Report("Which choices a hidden record flips", "pretrained", margins_table, beyond=True),),
)

"""How long runs and teachers took where the tracked results were made, so that a rerun can say so beforehand.

``keepset report`` writes it beside the tables, ``docs/results/durations.json``: it is still there where somebody has
deleted ``results/`` and ``teachers/`` to make everything anew.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import median

from keepset.files import Frozen, read_record
from keepset.paper.results import Results
from keepset.terminal import duration

TRACKED = Path("docs") / "results" / "durations.json"
NUMBER = re.compile(r"(?<=-)\d+(?=/|$)|(?<=-part)\d+(?=/|$)")
"""Of a part or a seed, in the name of a run."""


class Durations(Frozen):
    """Wall-clock seconds of one scale, each on one core."""

    scale: str
    runs: dict[str, int]
    """Run -> seconds."""
    teachers: dict[str, int]
    """Teacher, mixture and seed -> seconds of its training."""


def durations_file(results: Results) -> str:
    """Of every tracked run, as JSON."""
    training = {
        f"{run.at['mixture']}-{run.at['teacher']}": run.counts["training_seconds"]
        for run in results.of("teachers").runs.values()
    }
    runs = {name: round(run.seconds) for name, run in results.runs.items()}
    return Durations(scale=results.scale, runs=runs, teachers=training).model_dump_json(indent=1) + "\n"


def read_durations(scale: str) -> Durations:
    """Those of ``scale`` below this folder; none of another scale, or elsewhere."""
    if TRACKED.exists():
        found = read_record(TRACKED, Durations, "the durations of runs")
        if found.scale == scale:
            return found
    return Durations(scale=scale, runs={}, teachers={})


def said_beforehand(known: Durations, runs: Collection[str], teachers: Collection[str]) -> str:
    """What is missing, and how long it will take."""
    missing = "1 run is missing" if len(runs) == 1 else f"{len(runs)} runs are missing"
    if teachers:
        missing += f", and {len(teachers)} teacher{'s' * (len(teachers) > 1)}"
    found = [expected(known.runs, run) for run in runs] + [expected(known.teachers, name) for name in teachers]
    timed = [seconds for seconds in found if seconds is not None]
    untimed = len(found) - len(timed)
    if not timed:
        return f"{missing}; nothing here says how long that takes"
    said = f"{missing}: about {duration(sum(timed))} of one core, as long as the tracked ones took"
    return said + (f"; of {untimed} nothing here says how long" if untimed else "")


def expected(known: Mapping[str, int], name: str) -> float | None:
    """Seconds that it took, else the median of the other parts or seeds of the same thing."""
    if name in known:
        return known[name]
    if NUMBER.sub("0", name) not in known:  # parts and seeds begin at 0; other numbers are sizes
        return None
    return median(seconds for other, seconds in known.items() if NUMBER.sub("0", other) == NUMBER.sub("0", name))

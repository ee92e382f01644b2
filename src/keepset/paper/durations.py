"""How long runs and teachers took where the tracked results were made, so that a rerun can say so beforehand.

``keepset report`` writes it beside the tables, ``docs/results/durations.json``: it is still there where somebody has
deleted ``results/`` and ``teachers/`` to make everything anew.
"""

from collections.abc import Collection
from pathlib import Path

from keepset.files import Frozen, read_record
from keepset.paper.results import Results
from keepset.terminal import duration

TRACKED = Path("docs") / "results" / "durations.json"


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
    missing = f"{len(runs)} runs are missing" + (f", and {len(teachers)} teachers" if teachers else "")
    timed = [known.runs[run] for run in runs if run in known.runs]
    timed += [known.teachers[teacher] for teacher in teachers if teacher in known.teachers]
    untimed = len(runs) + len(teachers) - len(timed)
    if not timed:
        return f"{missing}; nothing here says how long they will take"
    said = f"{missing}: about {duration(sum(timed))} of one core, as long as the tracked ones took"
    return said + (f"; {untimed} more were never timed" if untimed else "")

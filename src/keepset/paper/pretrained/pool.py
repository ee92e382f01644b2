"""Parts of a run as one number, and how tables print it; the paper's rows beside ours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from keepset.paper.eviction.tally import only_first
from keepset.paper.experiment import Jobs
from keepset.paper.pretrained.settings import SETTINGS, Setting, parts
from keepset.paper.result import At, Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share, share_difference
from keepset.paper.table import with_interval

NOT_RUN = "-"
INTERVAL_NOTE = "Square brackets: 95 % Wilson interval. -: not run, or nothing to count."


Size = Callable[[Setting], int]
"""How many examples of a model."""
RunPart = Callable[[Setting, int, range], RunResult]
"""Model, number of the part, its examples -> its result."""


def part_jobs(scale: str, experiment: str, variants: Mapping[str, tuple[Size, RunPart]]) -> Jobs:
    """One result per model, part and variant: ``experiment/model/variant-part``.

    The first parts of every variant come first, so that a run that is stopped has some of each.
    """
    found: Jobs = {}
    for setting in SETTINGS[scale]:
        cut = {name: dict(parts(size(setting), setting.part)) for name, (size, _) in variants.items()}
        for part in range(max(map(len, cut.values()))):
            for name, (_, run) in variants.items():
                if part in cut[name]:
                    found[f"{experiment}/{setting.name}/{name}-{part}"] = partial(run, setting, part, cut[name][part])
    return found


def pooled_share(results: Results, what: str, **at: Coordinate) -> Metric | None:
    """One share over all parts; None where no part has it."""
    found = results.select(what, **at)
    if found.empty:
        return None
    rows = list(zip(found["value"], found["n"], strict=True))
    return share(what, sum(round(value * n) for value, n in rows), sum(n for _, n in rows), **at)


def paired_gap(results: Results, what: str, first: At, second: At) -> Metric | None:
    """The first share minus the second, over the parts that have both, example by example; None where no part has."""
    marks = []
    for which in (first, second):
        found = results.select(what, **which)
        marks.append(dict(zip(found["file"], found["each"], strict=True)))
    both = [file for file in marks[0] if file in marks[1]]
    if not both:
        return None
    one, other = ("".join(found[file] for file in both) for found in marks)
    n = len(one)
    return share_difference(
        share(what, one.count("1"), n), share(what, other.count("1"), n), share(what, only_first(one, other), n)
    )


def cell(results: Results, what: str, **at: Coordinate) -> str:
    """A share over all parts with its interval."""
    metric = pooled_share(results, what, **at)
    return with_interval(metric) if metric else NOT_RUN


def count(results: Results, what: str, **at: Coordinate) -> str:
    """What the share is of."""
    metric = pooled_share(results, what, **at)
    return str(metric.n) if metric else "0"


def models(results: Results) -> list[str]:
    """In the order of the settings, others after them."""
    found = results.coordinates("model")
    known = [setting.name for settings in SETTINGS.values() for setting in settings]
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def paper_rows(text: str) -> list[tuple[str, ...]]:
    """Rows of the paper's table after a rule, one a line, cells apart by bars; the first cell says whose they are."""
    lines = [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]
    return [(), *((f"paper: {model}", *cells) for model, *cells in lines)]


def grouped(groups: Iterable[Sequence[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Rows of all groups, a rule between them; empty groups leave no trace."""
    rows: list[tuple[str, ...]] = []
    for group in groups:
        if group:
            rows += [(), *group] if rows else group
    return rows

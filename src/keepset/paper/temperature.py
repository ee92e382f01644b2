"""Do recovered labels depend on how sharp the logits are? (``tab:temperature``)

The floored estimator on the recovery mixture when the logits are divided by a temperature, which changes no answer. One
result with all temperatures: each is compared with the labels at 1.
"""

import time
from functools import partial

import torch
from torch import Tensor

from keepset.interventions import Effects, Fast, GoldToken
from keepset.labels import FLOOR, exact_match, floored
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.labelled import Labelled
from keepset.paper.recovery import ALL, BUDGET, CONDITIONS, MIXTURE, against_annotations, recovery_result, total
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_paper

NAME = "temperature"
TEACHER = 0
"""The first, as in the paper."""
EXAMPLES = {"smoke": 8, "small": 200, "paper": 667}
"""Per condition."""
TEMPERATURES = (1.0, 0.5, 2.0, 4.0)
"""1 first: the others are compared with it."""


def jobs(scale: str) -> Jobs:
    """One result."""
    return {f"{NAME}/{MIXTURE}-{TEACHER}": partial(temperatures, scale, TEACHER)}


def temperatures(scale: str, seed: int) -> RunResult:
    """The floored estimator when the logits are divided by a temperature."""
    started = time.monotonic()
    subjects = [Labelled.load(scale, MIXTURE, seed, condition, EXAMPLES[scale]) for condition in CONDITIONS]
    n = total(subjects)
    labels: dict[float, list[Tensor]] = {}
    metrics: list[Metric] = []
    for temperature in TEMPERATURES:
        effects = [Effects(s.batch, Fast(s.model), GoldToken(temperature)) for s in subjects]
        labels[temperature] = [floored(e, BUDGET) for e in effects]
        drops = torch.cat([e.drop for e in effects])
        same = sum(int(exact_match(a, b).sum()) for a, b in zip(labels[temperature], labels[1.0], strict=True))
        at: At = {"temperature": temperature, "condition": ALL}
        found = against_annotations(subjects, labels[temperature], temperature=temperature)
        metrics += [metric for metric in found if metric.at["condition"] == ALL]
        metrics += [
            Metric(what="median_max_drop", at=at, value=float(drops.amax(1).median()), n=n),
            Metric(what="blocks_over_floor", at=at, value=float((drops >= FLOOR).sum(1).float().mean()), n=n),
            share("identical_to_temperature_1", same, n, **at),
        ]
    return recovery_result(NAME, scale, started, seed, subjects, metrics)


def temperature_table(results: Results) -> Table:
    """The floored estimator under logit rescaling."""
    run = results.run()
    digits = {
        "match": 3,
        "cover": 3,
        "median_max_drop": 1,
        "blocks_over_floor": 2,
        "identical_to_temperature_1": 3,
    }
    rows = []
    for temperature, paper in PAPER_TEMPERATURE.items():
        cells = [
            with_paper(results.value(what, temperature=temperature), known, digits[what])
            for what, known in zip(digits, paper, strict=True)
        ]
        rows.append((f"{temperature:g}", *cells))
    return Table(
        name="tab-temperature",
        caption=(
            f"Recovery under logit rescaling, {run.config['mixture']} teacher, seed {run.config['seed']}, floor "
            f"{run.config['floor']:g} nats (the paper's in brackets). Temperature changes no greedy prediction."
        ),
        columns=("T", "agreement", "coverage", "median max delta", "blocks over floor", "identical to T = 1"),
        rows=tuple(rows),
        notes=(f"n = {run.counts['examples']:,}.",),
    )


PAPER_TEMPERATURE = {
    0.5: ("0.845", "0.903", "22.0", "1.80", "0.980"),
    1.0: ("0.858", "0.913", "11.1", "1.80", "–"),
    2.0: ("0.885", "0.941", "5.8", "1.83", "0.962"),
    4.0: ("0.904", "0.965", "3.5", "1.87", "0.925"),
}
"""Agreement, coverage, median of the largest drop, blocks over the floor, share identical to temperature 1."""

EXPERIMENT = Experiment(
    name=NAME,
    place=25,
    jobs=jobs,
    teachers=lambda scale: [(MIXTURE, TEACHER)],
    reports=(Report("tab:temperature", "labels", temperature_table),),
)

"""Every experiment, found by itself: a file of the laboratory with an ``EXPERIMENT``."""

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module

import keepset.paper
from keepset.paper.experiment import Experiment

TESTBED = "keepset.paper.testbed"


@cache
def experiments() -> dict[str, Experiment]:
    """Name -> experiment, in the order of the paper."""
    found: list[Experiment] = []
    for module in pkgutil.walk_packages(keepset.paper.__path__, "keepset.paper."):
        if not module.name.startswith(TESTBED):
            declared = vars(import_module(module.name)).get("EXPERIMENT")
            if isinstance(declared, Experiment):
                found.append(declared)
    return {experiment.name: experiment for experiment in sorted(found, key=lambda e: (e.place, e.name))}


def labels(experiment: Experiment) -> list[str]:
    """The tables and figures of the paper that an experiment's reports are."""
    return [label for report in experiment.reports if not report.beyond for label in report.labels]


def find_experiments(names: Sequence[str]) -> dict[str, Experiment]:
    """The experiments called ``names``, or whose results a table or figure called so needs, in catalogue order."""
    every = {name: experiment for name, experiment in experiments().items() if not experiment.bench}
    wanted = set(every) if not names else set()
    known = {label for experiment in every.values() for label in labels(experiment)}
    for name in names:
        if name in every:
            wanted.add(name)
        elif name in known:
            for experiment in every.values():
                for report in experiment.reports:
                    if name in report.labels:
                        wanted |= {experiment.name, *report.needs}
        else:
            raise ValueError(
                f"unknown experiment {name!r}; expected one of {', '.join(every)}, or a result of the paper: "
                f"{', '.join(sorted(known))}"
            )
    return {name: experiment for name, experiment in every.items() if name in wanted}

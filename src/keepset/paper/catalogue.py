"""Every experiment, found by itself: a file of the laboratory with an ``EXPERIMENT``."""

import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module

import keepset.paper
from keepset.paper.claim import Claim
from keepset.paper.experiment import Experiment
from keepset.paper.results import Results

TESTBED = "keepset.paper.testbed"


@cache
def _declared() -> dict[str, tuple[Experiment, str]]:
    """Name -> experiment and the first line of its file, in the order of the paper."""
    found: dict[str, tuple[Experiment, str]] = {}
    for module in pkgutil.walk_packages(keepset.paper.__path__, "keepset.paper."):
        if not module.name.startswith(TESTBED):
            file = import_module(module.name)
            declared = vars(file).get("EXPERIMENT")
            if isinstance(declared, Experiment):
                found.setdefault(declared.name, (declared, (file.__doc__ or "").strip().split("\n")[0]))
    return dict(sorted(found.items(), key=lambda pair: (pair[1][0].place, pair[0])))


@cache
def experiments() -> dict[str, Experiment]:
    """Name -> experiment, in the order of the paper."""
    return {name: experiment for name, (experiment, _) in _declared().items()}


def headline(name: str) -> str:
    """What an experiment asks: the first line of the docstring of the file that declares it."""
    return _declared()[name][1]


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


@contextmanager
def every_number(what: str, experiment: Experiment) -> Iterator[None]:
    """A number that is missing is said, with the command that makes it; nothing is left out in silence."""
    try:
        yield
    except KeyError as missing:
        raise ValueError(
            f"{what}: {missing.args[0]}; a run was stopped halfway: '{experiment.command}' makes the rest"
        ) from missing


def claims(results: Results) -> Iterator[tuple[Experiment, Claim]]:
    """Every claim the results allow to judge."""
    for experiment in experiments().values():
        if experiment.claims and results.of(experiment.name):
            with every_number(f"claims of {experiment.name}", experiment):
                found = results.of(experiment.name, *experiment.claims_need).once(experiment.claims)
            yield from ((experiment, claim) for claim in found)

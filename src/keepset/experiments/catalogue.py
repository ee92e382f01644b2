"""Every experiment by name, in the order in which they need each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keepset.experiments import (
    ablation,
    agreement,
    budget,
    chains,
    eviction,
    family_routing,
    guard,
    hardened,
    minimality,
    optimizers,
    oracles,
    per_query,
    recovered_routing,
    recovery,
    redundant,
    routing,
    sanity,
    teachers,
)
from keepset.experiments.job import Jobs


@dataclass(frozen=True)
class Experiment:
    """A function from scale to jobs, and the results of the paper that it has a part in."""

    jobs: Callable[[str], Jobs]
    gives: tuple[str, ...] = ()


EXPERIMENTS: dict[str, Experiment] = {
    "teachers": Experiment(teachers.jobs, ("tab:app-teachers",)),
    "optimizers": Experiment(optimizers.jobs),
    "sanity": Experiment(sanity.jobs),
    "agreement": Experiment(agreement.jobs, ("tab:agreement", "tab:app-agreement", "fig:redundancy")),
    "minimality": Experiment(minimality.jobs),
    "recovery": Experiment(recovery.jobs, ("tab:recovered",)),
    "temperature": Experiment(recovery.temperature_jobs, ("tab:temperature",)),
    "redundant": Experiment(redundant.jobs, ("tab:redundant",)),
    "routing": Experiment(
        routing.jobs,
        ("tab:routing", "tab:app-routing", "tab:app-own-teacher", "tab:app-transfer", "fig:gap", "fig:routing"),
    ),
    "guard": Experiment(guard.jobs, ("tab:app-guard",)),
    "ablation": Experiment(ablation.jobs, ("tab:ablation", "tab:app-ablation")),
    "budget": Experiment(budget.jobs, ("fig:budget",)),
    "oracles": Experiment(oracles.jobs, ("tab:chain", "tab:budget-readouts", "tab:trace-supervision")),
    "per_query": Experiment(per_query.jobs, ("tab:per-query",)),
    "chains": Experiment(chains.jobs, ("tab:chain", "tab:chain-per-teacher", "tab:trace-supervision", "fig:routing")),
    "hardened": Experiment(hardened.jobs, ("tab:trace-supervision",)),
    "recovered_routing": Experiment(recovered_routing.jobs, ("tab:recovered",)),
    "family_routing": Experiment(family_routing.jobs),
    "eviction": Experiment(
        eviction.jobs,
        (
            "tab:qa",
            "tab:pq8k",
            "tab:pq16k",
            "tab:pq32k",
            "tab:pq-staleany",
            "tab:pq-seeds",
            "tab:restkv",
            "fig:eviction-scale",
        ),
    ),
}


def find_experiments(names: Sequence[str]) -> dict[str, Experiment]:
    """The experiments called ``names``, or that give the results of the paper called so, in catalogue order."""
    results = {result for experiment in EXPERIMENTS.values() for result in experiment.gives}
    for name in names:
        if name not in EXPERIMENTS and name not in results:
            raise ValueError(
                f"unknown experiment {name!r}; expected one of {', '.join(EXPERIMENTS)}, or a result of the paper: "
                f"{', '.join(sorted(results))}"
            )
    return {
        name: experiment
        for name, experiment in EXPERIMENTS.items()
        if name in names or not names or set(names) & set(experiment.gives)
    }

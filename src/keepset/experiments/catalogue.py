"""Every experiment by name, in the order in which they need each other."""

from collections.abc import Callable

from keepset.experiments import (
    ablation,
    agreement,
    budget,
    chains,
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

EXPERIMENTS: dict[str, Callable[[str], Jobs]] = {
    "teachers": teachers.jobs,
    "optimizers": optimizers.jobs,
    "sanity": sanity.jobs,
    "agreement": agreement.jobs,
    "minimality": minimality.jobs,
    "recovery": recovery.jobs,
    "temperature": recovery.temperature_jobs,
    "redundant": redundant.jobs,
    "routing": routing.jobs,
    "guard": guard.jobs,
    "ablation": ablation.jobs,
    "budget": budget.jobs,
    "oracles": oracles.jobs,
    "per_query": per_query.jobs,
    "chains": chains.jobs,
    "hardened": hardened.jobs,
    "recovered_routing": recovered_routing.jobs,
    "family_routing": family_routing.jobs,
}


def find_experiment(name: str) -> Callable[[str], Jobs]:
    """The experiment called ``name``: a function from scale to jobs."""
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}; expected one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]

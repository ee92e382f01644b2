"""Evidence without annotations: every estimator of the paper's ``tab:recovered``, on one pass of effects.

    sufficiency_flip    every block sufficient alone; if none is, every necessary one (the evidence set)
    verified_prefix     that, and the shortest prefix of the drop ranking that keeps the answer
    annotated_drops     the highest drops, as many as the annotation has (needs it: an upper bound)
    budget_drops        the highest drops, as many as the budget has room for
    singletons_budget   every block sufficient alone; if none is, the highest drops of the budget
    floored             the highest drops over a floor; if there are none, every block sufficient alone

The last is the paper's method. Its table calls the row "singletons, else floored delta", and its text puts the
drops first, because a chain's end record often suffices alone by being copied; the text is followed here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from keepset.interventions.effects import FLOOR, Effects
from keepset.labels.evidence import evidence_sets, label_of, ranked_blocks, smallest_prefix, task_evidence, top_drops


@dataclass(frozen=True)
class Estimator:
    """A label from effects and a budget."""

    title: str
    """Its row in the paper's table."""
    label: Callable[[Effects, int], Tensor]
    """(B, N) bool."""


def sufficiency_flip(effects: Effects, budget: int) -> Tensor:
    return evidence_sets(effects)


def verified_prefix(effects: Effects, budget: int) -> Tensor:
    rankings = ranked_blocks(effects.drop, effects.exists)
    found = effects.probe.search(
        {i: smallest_prefix(ranking, min(budget, len(ranking))) for i, ranking in enumerate(rankings)}
    )
    return evidence_sets(effects) | label_of([found[i] for i in range(len(rankings))], effects.drop.shape[1])


def annotated_drops(effects: Effects, budget: int) -> Tensor:
    return top_drops(effects, task_evidence(effects.probe.examples, effects.drop.shape[1]).sum(1))


def budget_drops(effects: Effects, budget: int) -> Tensor:
    return top_drops(effects, budget)


def singletons_budget(effects: Effects, budget: int) -> Tensor:
    sufficient = effects.sufficient
    return torch.where(sufficient.any(1, keepdim=True), sufficient, budget_drops(effects, budget))


def floored(effects: Effects, budget: int, floor: float = FLOOR) -> Tensor:
    over = top_drops(effects, budget) & (effects.drop >= floor)
    return torch.where(over.any(1, keepdim=True), over, effects.sufficient)


ESTIMATORS: dict[str, Estimator] = {
    "sufficiency_flip": Estimator("Sufficiency / flip family", sufficiency_flip),
    "verified_prefix": Estimator("+ verified delta prefix", verified_prefix),
    "annotated_drops": Estimator("Top-k delta, annotated size", annotated_drops),
    "budget_drops": Estimator("Top-k delta, budget size", budget_drops),
    "singletons_budget": Estimator("Singletons, else budget delta", singletons_budget),
    "floored": Estimator("Singletons, else floored delta", floored),
}


def recover(name: str, effects: Effects, budget: int) -> Tensor:
    """(B, N) bool: the label of the estimator called ``name``."""
    if name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; expected one of {', '.join(ESTIMATORS)}")
    if budget < 1:
        raise ValueError(f"budget: expected at least one block, got {budget}")
    return ESTIMATORS[name].label(effects, budget)


def alternatives(label: Tensor, effects: Effects) -> Tensor:
    """(B,) bool: every named block suffices alone, so that any one of them is enough; else the label is one set."""
    return label.any(1) & ~(label & ~effects.sufficient).any(1)

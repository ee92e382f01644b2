"""The minimal sufficient sets of one answer: which blocks stand in for which."""

import torch

from keepset.blocks import KeepSet
from keepset.interventions import Effects
from keepset.labels.families import find_families

MOST_SETS = 4
"""Minimal sufficient sets to look for: each costs a search of its own, and a reader wants to know if there is one."""
LEAST_PROBES = 50
"""Keep sets that a search for minimal sets may always ask, however short the text."""


def find_family(effects: Effects, knows: bool) -> tuple[frozenset[KeepSet], bool]:
    """Minimal sufficient sets of the one example, and whether there are no others if hiding more never repairs.

    Starts from the blocks that are enough alone: without all of them the answer is usually lost, and nothing is left
    to search. On real models hiding more does repair sometimes, and a search returns sets that hold a smaller one.
    """
    if knows:
        return frozenset({frozenset()}), True
    probe = effects.probe
    alone = torch.nonzero(effects.sufficient[0]).flatten().tolist()
    (rest,) = probe.score([(0, probe.blocks(0) - frozenset(alone))])
    singles = frozenset(frozenset({block}) for block in alone)
    if not rest.correct:
        return singles, True
    as_the_effects_took = 2 * len(probe.examples[0].blocks)
    (found,) = find_families(probe, cap=MOST_SETS, max_probes=max(LEAST_PROBES, as_the_effects_took))
    sets = singles | found.sets
    smallest = frozenset(keep for keep in sets if not any(other < keep for other in sets))
    return smallest, found.complete and smallest == found.sets

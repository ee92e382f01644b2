"""Families: the minimal sufficient sets of an example, also where no block suffices and none is necessary.

Two disjoint chains to one answer are the case the paper's estimators miss: hiding any record changes nothing, because
the other chain stands. One minimal set is found by halving; the others by asking what remains without it:

    all blocks                   -> {1, 4, 6}
      without 1                  -> {2, 3, 9}       another set, disjoint
        without 1, 2 / 3 / 9     -> lost
      without 4, without 6       -> {2, 3, 9}       known: costs nothing

This is the hitting-set tree (Reiter 1987) over the searches of ``interventions/quickxplain.py``. Exact if hiding more
never repairs the answer. Which operator hides is the caller's choice, and decides what "sufficient" means: under
``Mask`` a lone end record suffices because its value is the only one left to copy; under ``Overwrite`` with nonce
records it competes with other values.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from keepset.blocks import Family, KeepSet
from keepset.interventions.probe import Probe, Search
from keepset.interventions.quickxplain import minimal_set

CAP = 8
"""Sets of one example; more are not looked for."""
MAX_PROBES = 400
"""Keep sets of one example after which no further node of the tree is opened: large sets make wide trees."""


@dataclass(frozen=True)
class FoundFamily:
    """What a search found."""

    sets: Family
    complete: bool
    """Every minimal sufficient set is there, if hiding more never repairs the answer; False when a limit cut it off."""
    probes: int
    """Keep sets asked."""

    @property
    def smallest(self) -> Family:
        """The sets with the fewest blocks. A set that is larger than another is mostly one of those with a block
        missing, made good by several others."""
        least = min(map(len, self.sets), default=0)
        return frozenset(keep for keep in self.sets if len(keep) == least)

    @property
    def union(self) -> KeepSet:
        """Every block of a smallest set."""
        return frozenset().union(*self.smallest)


def all_sets(n_blocks: int, cap: int = CAP, max_probes: int = MAX_PROBES) -> Search[FoundFamily]:
    """Every minimal sufficient set, up to ``cap`` of them, as far as about ``max_probes`` go."""
    everything = frozenset(range(n_blocks))
    sets: list[KeepSet] = []
    probes = 0
    queue: deque[KeepSet] = deque([frozenset()])
    queued = {frozenset[int]()}
    while queue and len(sets) < cap and probes < max_probes:
        without = queue.popleft()
        known = next((keep for keep in sets if not keep & without), None)
        if known is None:
            left = everything - without
            (score,) = yield [left]
            probes += 1
            if not score.correct:
                continue
            search = _minimal(left)
            known, asked = yield from _counted(search)
            probes += asked
            sets.append(known)
        for block in sorted(known):
            child = without | {block}
            if child not in queued:
                queued.add(child)
                queue.append(child)
    return FoundFamily(frozenset(sets), not queue, probes)


def find_families(probe: Probe) -> list[FoundFamily]:
    """The family of each example."""
    found: dict[int, FoundFamily] = {}
    for group in probe.groups(range(len(probe))):
        with probe.hold(group):
            found |= probe.search({i: all_sets(len(probe.examples[i].blocks)) for i in group})
    return [found[i] for i in range(len(probe))]


def confirm(families: Sequence[FoundFamily], probe: Probe) -> list[FoundFamily]:
    """The families of all examples of ``probe`` without the sets that do not suffice to it.

    With other nonces than the search had, it sorts out what was sufficient by luck: a search meets hundreds of keep
    sets, and some of them guess right.
    """
    asks = [(i, keep) for i, family in enumerate(families) for keep in family.sets]
    holds = {ask for ask, score in zip(asks, probe.score(asks), strict=True) if score.correct}
    confirmed = [frozenset(keep for keep in family.sets if (i, keep) in holds) for i, family in enumerate(families)]
    return [
        FoundFamily(sets, family.complete and sets == family.sets, family.probes + len(family.sets))
        for family, sets in zip(families, confirmed, strict=True)
    ]


def _minimal(blocks: KeepSet) -> Search[KeepSet]:
    """A minimal sufficient set inside ``blocks``, which are sufficient; empty when nothing is needed."""
    found = yield from minimal_set(sorted(blocks), changed=True)
    assert found is not None
    return found


def _counted(search: Search[KeepSet]) -> Search[tuple[KeepSet, int]]:
    """What ``search`` finds, and how many keep sets it asked."""
    asked = 0
    answer = None
    while True:
        try:
            keeps = next(search) if answer is None else search.send(answer)
        except StopIteration as stop:
            return stop.value, asked
        asked += len(keeps)
        answer = yield keeps

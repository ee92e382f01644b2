"""Which views share which beginnings.

What the model computes for a token depends only on the visible tokens before it. So a view is written
as a string of pieces in position order, blocks and the always-visible gaps between them, and two strings
with a common beginning share its keys and values:

    clean      0 1 2 3 query            computed whole
    hide 2     0 1 · 3 query            branches off clean after block 1: computes block 3 and the query
    keep 3     · · · 3 query            shares nothing

Every distinct beginning is computed once, whichever string of several is walked first.
"""

from dataclasses import dataclass, field

from torch import Tensor

from keepset.blocks import Example
from keepset.interventions.executors.layout import Job, Layout
from keepset.interventions.operators import Symbol
from keepset.models.cache import KeysValues
from keepset.text.prompt import common_length

GAP = -1
"""The version of the piece (block, GAP): the always-visible tokens right before a block."""
END: Symbol = (1 << 60, 0)
"""Stands after the last piece of a string."""


@dataclass(eq=False)
class Path:
    """One view as the part that is new after its parent."""

    job: Job
    layout: Layout
    string: tuple[Symbol, ...]
    parent: "Path | None" = None
    children: list["Path"] = field(default_factory=list)
    start: int = 0
    """How many tokens of the layout the parent has computed already."""
    held: bool = False
    """Keep the keys and values after the children are done."""
    computed: KeysValues | None = None
    row: int = 0
    """The row of ``computed`` that is this path's."""
    slots: Tensor | None = None
    """(S,) where in that row each token of the layout stands."""

    @property
    def new(self) -> int:
        """How many tokens have to be computed."""
        return len(self.layout) - self.start


def pieces(example: Example, string: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The visible blocks of a view with the gaps between them; tokens after the last block belong to the query."""
    stops = [0, *(span.stop for span in example.blocks)]
    gaps = [(b, GAP) for b, span in enumerate(example.blocks) if span.start > stops[b]]
    return tuple(sorted((*string, *gaps))) if gaps else string


def plan(paths: list[Path], trunk: Path | None = None) -> list[Path]:
    """Links the paths of one example; returns those that can run first: roots, or branches of a computed trunk."""
    if trunk is None:
        return _siblings(paths, 0)
    before = len(trunk.children)
    _branch_off(trunk, paths)
    return trunk.children[before:]


def _siblings(paths: list[Path], shared: int) -> list[Path]:
    """Paths equal in their first ``shared`` pieces: one trunk per next piece, the others branch off it."""
    by_next: dict[Symbol, list[Path]] = {}
    for path in paths:
        by_next.setdefault(path.string[shared] if shared < len(path.string) else END, []).append(path)
    trunks = []
    for group in by_next.values():
        # The longest path as trunk: its branches are then many and short, and run together.
        trunk = max(group, key=lambda path: len(path.string))
        _branch_off(trunk, [path for path in group if path is not trunk])
        trunks.append(trunk)
    return trunks


def _branch_off(trunk: Path, paths: list[Path]) -> None:
    by_common: dict[int, list[Path]] = {}
    for path in paths:
        by_common.setdefault(common_length(trunk.string, path.string), []).append(path)
    for shared, group in by_common.items():
        for child in _siblings(group, shared):
            child.parent = trunk
            child.start = _tokens(child, shared)
            trunk.children.append(child)


def _tokens(path: Path, shared: int) -> int:
    """How many tokens the first ``shared`` pieces of a path have."""
    if shared == 0:
        return 0
    block, version = path.string[shared - 1]
    span = path.job.example.blocks[block]
    end = span.start if version == GAP else span.stop
    return int((path.layout.positions[: path.layout.context] < end).sum())

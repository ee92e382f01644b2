"""Several paths side by side in one forward: which columns each may read.

    columns    | lent from the parent (M)  | new tokens, right-aligned (R) |
    path a     | x x x x x x x . . .       |       x x x x x x x x x query |
    path b     | x x x x x x x x x .       |           x x x x x x x query |     . and blank: nobody reads

Right-aligned, because then the rows whose predictions are read are the same columns for every path.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from keepset.blocks import Example
from keepset.interventions.executors.trie import Path
from keepset.models.masks import block_numbers


def visible_positions(example: Example, visible: Sequence[int]) -> Tensor:
    """Positions of the context tokens somebody reads."""
    shown = torch.zeros(len(example.blocks) + 1, dtype=torch.bool)
    shown[list(visible)] = True
    shown[-1] = True  # tokens outside every block have number -1
    return shown[block_numbers(example.blocks, len(example.tokens))].nonzero().flatten()


def patterns_of(paths: list[Path]) -> tuple[list[Path], list[int]]:
    """One path of each structure, and the number of every path's structure."""
    number: dict[tuple[int, int, int], int] = {}
    patterns: list[Path] = []
    pattern_of = []
    for path in paths:
        key = (id(path.layout), path.start, id(path.parent.slots) if path.parent and path.start else 0)
        if key not in number:
            number[key] = len(patterns)
            patterns.append(path)
        pattern_of.append(number[key])
    return patterns, pattern_of


def reach_of(path: Path) -> int:
    """How many slots of its parent's row a path needs."""
    if path.parent is None or path.start == 0:
        return 0
    assert path.parent.slots is not None
    return int(path.parent.slots[path.start - 1]) + 1


def slots_of(path: Path, width: int, reach: int) -> Tensor:
    own = torch.arange(reach + width - path.new, reach + width)
    if path.parent is None or path.start == 0:
        return own
    assert path.parent.slots is not None
    return torch.cat([path.parent.slots[: path.start], own])


def who_reads_whom(paths: list[Path], width: int, reach: int) -> tuple[Tensor, Tensor]:
    """(B, R, S) bool and (B, S) positions, for lent columns first and new ones after."""
    lent = torch.zeros(len(paths), reach, dtype=torch.bool)
    positions = torch.zeros(len(paths), reach + width, dtype=torch.long)
    branch = torch.full((len(paths), width), -1)  # -1: padding, read by nobody
    for b, path in enumerate(paths):
        layout, first = path.layout, width - path.new
        if path.start:
            assert path.parent is not None
            assert path.parent.slots is not None
            slots = path.parent.slots[: path.start]
            lent[b, slots] = True
            positions[b, slots] = layout.positions[: path.start]
        positions[b, reach + first :] = layout.positions[path.start :]
        branch[b, first:] = layout.branch[path.start :]
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    own = causal & ((branch[:, None, :] == 0) | (branch[:, None, :] == branch[:, :, None]))
    own &= (branch >= 0)[:, None, :]
    return torch.cat([lent[:, None, :].expand(-1, width, -1), own], dim=-1), positions

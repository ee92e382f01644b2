"""How a block is removed: ``Mask`` hides it, ``Overwrite`` replaces it; positions never move.

An operator turns a keep set into views. A view is what the model reads: the tokens, and which blocks
are there to be read, written as a string of (block, version) in position order:

    keep {0, 2} of blocks A B C         tokens          string
    Mask()                              A B C query     (0,0) (2,0)             B is there, nobody reads it
    Overwrite(filler(f))                A f C query     (0,0) (1,1) (2,0)

Executors share work between views along common beginnings of their strings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from keepset.blocks import Example, KeepSet, check_keep_set
from keepset.models.masks import block_numbers

Symbol = tuple[int, int]
"""A block and its version: 0 is the block itself, ``a`` its a-th replacement, counted from 1."""

Replacement = Sequence[Sequence[int]]
"""One token sequence per block, each as long as the block it replaces."""


@dataclass(frozen=True, eq=False)
class View:
    """What the model reads of an example."""

    tokens: Tensor
    """(T,) token ids."""
    string: tuple[Symbol, ...]
    """The blocks somebody reads, in position order; a block not named is hidden."""

    @property
    def visible(self) -> tuple[int, ...]:
        return tuple(block for block, _ in self.string)


class Operator(Protocol):
    """How blocks outside a keep set are removed."""

    def views(self, example: Example, keep: KeepSet) -> list[View]:
        """One view, or several whose scores are averaged."""
        ...


@dataclass(frozen=True)
class Mask:
    """Hidden at every layer from every query outside the block."""

    def views(self, example: Example, keep: KeepSet) -> list[View]:
        check_keep_set(keep, len(example.blocks))
        return [View(example.tokens, tuple((block, 0) for block in sorted(keep)))]


@dataclass(frozen=True)
class Overwrite:
    """Replaced by tokens of equal length, which everybody reads."""

    replacements: Callable[[Example], Sequence[Replacement]]
    """The alternatives for one example; the same example must always get the same ones."""

    def views(self, example: Example, keep: KeepSet) -> list[View]:
        check_keep_set(keep, len(example.blocks))
        alternatives = self.replacements(example)
        if not alternatives:
            raise ValueError("overwrite: expected at least one replacement per example, got none")
        keep_all = len(keep) == len(example.blocks)  # nothing to replace: one view, not one per alternative
        return [self._view(example, keep, a + 1, r) for a, r in enumerate(alternatives[: 1 if keep_all else None])]

    def _view(self, example: Example, keep: KeepSet, version: int, replacement: Replacement) -> View:
        if [len(tokens) for tokens in replacement] != [len(span) for span in example.blocks]:
            raise ValueError(
                f"overwrite, alternative {version}: expected one token sequence per block, as long as the block "
                f"({[len(span) for span in example.blocks]}), got lengths {[len(tokens) for tokens in replacement]}"
            )
        replaced = example.tokens.clone()
        numbers = block_numbers(example.blocks, len(example.tokens))
        hidden = torch.ones(len(example.blocks) + 1, dtype=torch.bool)
        hidden[sorted(keep)] = False
        hidden[-1] = False  # tokens outside every block have number -1
        flat = torch.tensor([token for tokens in replacement for token in tokens], dtype=replaced.dtype)
        whole = example.tokens.clone()
        whole[numbers >= 0] = flat
        replaced = torch.where(hidden[numbers], whole, replaced)
        string = tuple((block, 0 if block in keep else version) for block in range(len(example.blocks)))
        return View(replaced, string)


def filler(token: int) -> Callable[[Example], list[Replacement]]:
    """The synthetic tasks' replacement: one token, repeated over the block."""

    def replacements(example: Example) -> list[Replacement]:
        return [[[token] * len(span) for span in example.blocks]]

    return replacements

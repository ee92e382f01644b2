"""The paper's label, and the sets it is compared with. A label is a (B, N) bool: which blocks it names.

evidence_sets   every block sufficient alone; if none is, every necessary block
top_drops       the k blocks whose hiding costs the answer most (ablation ranking)
greedy_sets     a sufficient set found by adding blocks in that order, then pruned
task_evidence   what the task says, by construction
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from keepset.blocks import Example, KeepSet
from keepset.interventions import Effects
from keepset.interventions.probe import Search


class Case(StrEnum):
    """Which of the two cases an evidence set is; its blocks mean different things."""

    ALTERNATIVES = "alternatives"
    """Each block of the set is enough on its own."""
    NECESSARY = "necessary"
    """No block is enough; without any one block of the set the answer is lost."""
    EMPTY = "empty"
    """Nothing is enough alone and nothing is necessary."""


@dataclass(frozen=True)
class Evidence:
    """The evidence set of one example."""

    blocks: KeepSet
    case: Case


def evidence_sets(effects: Effects) -> Tensor:
    """(B, N) bool: the causal evidence set."""
    return effects.sufficient | effects.flip_unless_sufficient


def find_evidence(effects: Effects) -> list[Evidence]:
    """The evidence set of each example with its case."""
    suffices = effects.sufficient.any(1).tolist()
    found = []
    for i, blocks in enumerate(keep_sets(evidence_sets(effects))):
        case = Case.ALTERNATIVES if suffices[i] else Case.NECESSARY if blocks else Case.EMPTY
        found.append(Evidence(blocks, case))
    return found


def task_evidence(examples: Sequence[Example], n_blocks: int) -> Tensor:
    """(B, N) bool: the annotated union."""
    label = torch.zeros(len(examples), n_blocks, dtype=torch.bool)
    for i, example in enumerate(examples):
        label[i, sorted(example.evidence)] = True
    return label


def top_k(scores: Tensor, k: int | Tensor, exists: Tensor | None = None) -> Tensor:
    """(B, N) bool: the ``k`` highest scores of each row; of equal ones the lower block.

    ``k`` may differ from row to row (B,); blocks that do not exist are never named.
    """
    exists = torch.ones_like(scores, dtype=torch.bool) if exists is None else exists
    rank = rankings(scores, exists)
    wanted = k[:, None] if isinstance(k, Tensor) else k
    return (rank < wanted) & exists


def rankings(scores: Tensor, exists: Tensor) -> Tensor:
    """(B, N) the place of each block when sorted by falling score; of equal ones the lower block first."""
    order = scores.masked_fill(~exists, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    return torch.empty_like(order).scatter_(1, order, torch.arange(scores.shape[1]).expand_as(order))


def top_drops(effects: Effects, k: int | Tensor) -> Tensor:
    """(B, N) bool: ablation ranking."""
    return top_k(effects.drop, k, effects.exists)


def greedy_sets(effects: Effects) -> Tensor:
    """(B, N) bool: blocks added by falling drop until the answer is there, then pruned; empty where it never is."""
    searches = {i: add_then_prune(ranking) for i, ranking in enumerate(ranked_blocks(effects.drop, effects.exists))}
    found = effects.probe.search(searches)
    return label_of([found[i] for i in range(len(searches))], effects.drop.shape[1])


def add_then_prune(ranking: Sequence[int]) -> Search[KeepSet]:
    """The smallest prefix of ``ranking`` that keeps the answer, without the blocks it can spare."""
    keep = yield from smallest_prefix(ranking, len(ranking))
    for block in reversed([block for block in ranking if block in keep]):  # the least important first
        (score,) = yield [keep - {block}]
        if score.correct:
            keep -= {block}
    return keep


def smallest_prefix(ranking: Sequence[int], longest: int) -> Search[KeepSet]:
    """The shortest beginning of ``ranking`` that keeps the answer; empty when none up to ``longest`` does."""
    for k in range(1, longest + 1):
        keep = frozenset(ranking[:k])
        (score,) = yield [keep]
        if score.correct:
            return keep
    return frozenset()


def ranked_blocks(scores: Tensor, exists: Tensor) -> list[list[int]]:
    """The existing blocks of each row by falling score."""
    counts = exists.sum(1).tolist()
    order = rankings(scores, exists).argsort(1).tolist()
    return [row[:count] for row, count in zip(order, counts, strict=True)]


def keep_sets(label: Tensor) -> list[KeepSet]:
    """A label as keep sets."""
    return [frozenset(torch.nonzero(row).flatten().tolist()) for row in label]


def label_of(keeps: Sequence[KeepSet], n_blocks: int) -> Tensor:
    """(B, N) bool: keep sets as a label."""
    label = torch.zeros(len(keeps), n_blocks, dtype=torch.bool)
    for i, keep in enumerate(keeps):
        label[i, sorted(keep)] = True
    return label

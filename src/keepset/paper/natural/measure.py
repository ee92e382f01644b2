"""How much of what is asked for is kept, and how sure that is: papers, not paragraphs, are drawn again."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.paper.natural.documents import AskedOf, Read
from keepset.paper.result import Coordinate, Metric
from keepset.pruning.budget import Budget, select

BUDGETS = (0.1, 0.25, 0.5)
"""Shares of the words."""
NUMBERS = (1, 2, 4)
"""Sentences that are kept."""
DRAWS = 2_000
"""Bootstrap samples."""

Scorer = Callable[[Read, AskedOf | None], Tensor]
"""A document, and a question or none -> (N,) what is kept first."""


def kept_blocks(scores: Tensor, words: Sequence[int], share: float) -> KeepSet:
    return select(scores, words, Budget.share_of_tokens(share), frozenset())


def wanted_recall(documents: Sequence[Read], score: Scorer) -> list[Metric]:
    """No question: the share of wanted blocks that a share of the words holds."""
    counted = [wanted_kept(document, score) for document in documents]
    return [
        clustered_share("recall", [found[budget] for found in counted], regime="pre_query", budget=budget)
        for budget in BUDGETS
    ]


def wanted_kept(document: Read, score: Scorer) -> dict[float, tuple[int, int]]:
    """Budget -> wanted blocks of one document that are kept, and all of them."""
    scores, wanted = score(document, None), frozenset(document.wanted.nonzero().flatten().tolist())
    return {b: (len(wanted & kept_blocks(scores, document.words, b)), len(wanted)) for b in BUDGETS}


def question_recall(documents: Sequence[Read], score: Scorer) -> list[Metric]:
    """Question known: the same for the blocks of one question, over all questions."""
    counted: dict[float, list[tuple[int, int]]] = {budget: [] for budget in BUDGETS}
    for document in documents:
        sums = {budget: [0, 0] for budget in BUDGETS}
        for asked in document.asked:
            scores = score(document, asked)
            wanted = frozenset(asked.gold.nonzero().flatten().tolist())
            words = document.words[asked.blocks.start : asked.blocks.stop]
            for budget in BUDGETS:
                sums[budget][0] += len(wanted & kept_blocks(scores, words, budget))
                sums[budget][1] += len(wanted)
        for budget in BUDGETS:
            counted[budget].append((sums[budget][0], sums[budget][1]))
    return [clustered_share("recall", pairs, regime="query_aware", budget=budget) for budget, pairs in counted.items()]


def among_best(documents: Sequence[Read], score: Scorer) -> list[Metric]:
    """Question known: is the gold sentence among the best few?"""
    counted: dict[int, list[tuple[int, int]]] = {number: [] for number in NUMBERS}
    for document in documents:
        hits = dict.fromkeys(NUMBERS, 0)
        for asked in document.asked:
            order = score(document, asked).sort(descending=True, stable=True).indices
            rank = int((order == int(asked.gold.nonzero()[0])).nonzero()[0])
            for number in NUMBERS:
                hits[number] += rank < number
        for number in NUMBERS:
            counted[number].append((hits[number], len(document.asked)))
    return [clustered_share("among_best", pairs, number=number) for number, pairs in counted.items()]


def clustered_share(what: str, pairs: Sequence[tuple[int, int]], **at: Coordinate) -> Metric:
    """Hits over all, with a 95 % bootstrap interval over the documents."""
    found: NDArray[np.int64] = np.array([pair for pair in pairs if pair[1]])
    rng = np.random.default_rng(seeds.STATISTICS.seed(0))
    sums = found[rng.integers(len(found), size=(DRAWS, len(found)))].sum(1)  # (DRAWS, 2)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    hits, n = (int(total) for total in found.sum(0))
    return Metric(what=what, at=at, value=hits / n, n=n, low=float(low), high=float(high))


def random_scores(document: Read, asked: AskedOf | None) -> Tensor:
    blocks = len(document.words) if asked is None else len(asked.blocks)
    draw = sum(map(ord, document.id + (asked.question if asked else ""))) % seeds.DRAWS
    return torch.rand(blocks, generator=torch.Generator().manual_seed(seeds.STATISTICS.seed(1, draw)))


def shortest_first(document: Read, asked: AskedOf | None) -> Tensor:
    """Nothing but lengths: short blocks are many, and evidence is counted in blocks."""
    return -torch.tensor(document.words).float()


def last_first(document: Read, asked: AskedOf | None) -> Tensor:
    return torch.arange(len(document.words)).float()


def gold_first(document: Read, asked: AskedOf | None) -> Tensor:
    """The oracle: what is marked, the shorter first, which holds most; then the others as they stand."""
    words = torch.tensor(document.words).float()
    if asked is None:
        return document.wanted / (1 + words)
    return asked.gold / (1 + words[asked.blocks.start : asked.blocks.stop])

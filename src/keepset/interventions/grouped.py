"""Group-tested leave-one-out: hide many blocks at once, and look closer only where something happens.

    hide [0..31] [32..63] [64..95] [96..127]     the answer moves only without 64..95:
         [64..79] [80..95] -> [80..87] [88..95] -> ... -> block 83

A group whose drop stays under the threshold and that flips nothing clears all its blocks. Exact if hiding more
never repairs the answer.
"""

from dataclasses import dataclass
from itertools import pairwise

from keepset.interventions.probe import Search
from keepset.interventions.scorers import Score

FIRST_GROUPS = 4
"""Groups of the first round. More cost tokens, fewer cost rounds; between 2 and 8 the difference is small."""


@dataclass(frozen=True)
class GroupTest:
    """What hiding blocks one by one did, where groups had to be opened; every other block was cleared."""

    clean: Score
    hidden: dict[int, Score]
    """Block -> the score with that block alone hidden."""


def group_test(n_blocks: int, threshold: float) -> Search[GroupTest]:
    """Leave-one-out of one example, cleared in groups at ``threshold`` nats."""
    everything = frozenset(range(n_blocks))
    (clean,) = yield [everything]
    hidden: dict[int, Score] = {}
    edges = [round(i * n_blocks / FIRST_GROUPS) for i in range(FIRST_GROUPS + 1)]
    groups = [range(a, b) for a, b in pairwise(edges) if a < b]
    while groups:
        scores = yield [everything - frozenset(group) for group in groups]
        following = []
        for group, score in zip(groups, scores, strict=True):
            if len(group) == 1:
                hidden[group[0]] = score
            elif moves(clean, score, threshold):
                middle = len(group) // 2
                following += [group[:middle], group[middle:]]
        groups = following
    return GroupTest(clean, hidden)


def moves(clean: Score, hidden: Score, threshold: float) -> bool:
    """Hiding cost at least ``threshold`` nats, or the answer."""
    return clean.log_prob - hidden.log_prob >= threshold or (clean.correct and not hidden.correct)

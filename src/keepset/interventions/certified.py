"""Bisection with a certificate: one evidence set for about three forwards, or an honest "do not know".

A set S is certified when, on this very example,
  - keeping only S preserves the answer (S is sufficient),
  - hiding any one block of S from the full context loses it (every block of S is necessary),
  - S among two random complementary halves of the other blocks still preserves it (decoys).

If hiding more never repairs the answer, the first two say that S is the only minimal sufficient set, so no
other block is sufficient alone and none is necessary. The decoys catch the known exception: a record that
"suffices" alone because its value is the only one to copy. Whatever chain it belongs to, at least one of two
complementary halves breaks that chain and offers other values. Without a certificate the caller measures the blocks.
"""

import random
from dataclasses import dataclass

from keepset.blocks import KeepSet
from keepset.interventions.probe import Search
from keepset.interventions.quickxplain import minimal_set
from keepset.interventions.scorers import Score

MAX_SET = 4
"""Larger sets cost more to find than they save."""


@dataclass(frozen=True)
class Certificate:
    """A certified set with what was measured on the way."""

    keep: KeepSet
    clean: Score
    hidden: dict[int, Score]
    """Block of the set -> the score with that block hidden."""
    alone: Score
    """The score with only the set kept."""


def certify(n_blocks: int, seed: int) -> Search[Certificate | None]:
    """Looks for a certified set of one example with ``n_blocks`` blocks."""
    everything = frozenset(range(n_blocks))
    (clean,) = yield [everything]
    if not clean.correct:
        return None
    last = yield from _bisect(n_blocks)
    (alone,) = yield [last]
    found: KeepSet | None = last
    if not alone.correct:
        found = yield from minimal_set(sorted(everything), MAX_SET)
        if not found:  # too large, or nothing needed: no context block matters
            return None
        (alone,) = yield [found]
    assert found is not None
    others = sorted(everything - found)
    random.Random(seed).shuffle(others)
    half = len(others) // 2
    decoys = [found | frozenset(others[:half]), found | frozenset(others[half:])]
    # Cheapest refutation first: the decoys are asked only when every block is necessary.
    hidden = yield [everything - {block} for block in sorted(found)]
    if not alone.correct or any(score.correct for score in hidden):
        return None
    among = yield decoys
    if not all(score.correct for score in among):
        return None
    return Certificate(found, clean, dict(zip(sorted(found), hidden, strict=True)), alone)


def _bisect(n_blocks: int) -> Search[KeepSet]:
    """The one block the answer needs, if it needs one: keep the left half while that preserves the answer.

    The right half is believed and not asked; the certificate at the end catches a wrong belief.
    """
    low, high = 0, n_blocks
    while high - low > 1:
        middle = (low + high) // 2
        (score,) = yield [frozenset(range(low, middle))]
        low, high = (low, middle) if score.correct else (middle, high)
    return frozenset({low})

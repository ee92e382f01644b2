"""QuickXplain (Junker 2004): one minimal set of blocks that preserves the answer, by halving.

About 2k(log2(N/k) + 1) probes for a set of k of N blocks, against N for dropping block after block. Minimal
if hiding more never repairs the answer.
"""

from collections.abc import Sequence

from keepset.blocks import KeepSet
from keepset.interventions.probe import Search


def minimal_set(
    blocks: Sequence[int], room: int | None = None, background: KeepSet = frozenset(), changed: bool = False
) -> Search[KeepSet | None]:
    """A minimal set of ``blocks`` that, with ``background``, preserves the answer, which all of them together do.

    None when it would have more than ``room`` blocks. ``changed``: ask first whether ``background`` is enough.
    """
    if changed:
        (score,) = yield [background]
        if score.correct:
            return frozenset()
    if room is not None and room < 1:
        return None
    if len(blocks) <= 1:
        return frozenset(blocks)
    left, right = blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]
    in_right = yield from minimal_set(right, room, background | frozenset(left), True)
    if in_right is None:
        return None
    left_room = None if room is None else room - len(in_right)
    in_left = yield from minimal_set(left, left_room, background | in_right, bool(in_right))
    return None if in_left is None else in_left | in_right

"""A log that sets registers; one of them is set twice, and the last write counts.

Register R17 is set to 4821.
The grass is green. ...
Register R52 now holds 1190.
Register R17 takes the value 9034.        the correction: from here on 4821 is stale

The paper gives no template. First writes and corrections draw their words from one set, so that no word tells a
correction: that takes having read the first write. From the paper's numbers: about one register in sixteen is the
corrected one, so there are sixteen, and writes stand at random places. There is one for every 128 tokens at most:
sixteen from 2,048 tokens on, fewer in shorter documents, which would have nothing else in them.
"""

from collections.abc import Sequence

import numpy as np

from keepset.text.document import BLOCK_TOKENS, Asked, Count, Draft, Needle

REGISTERS = 16
NAMES = 100
WORDINGS = ("is set to", "is now set to", "now holds", "takes the value")
"""Of first writes and corrections alike."""
VALUES = (1_000, 10_000)
INSTRUCTION = (
    "The following text is a log that sets registers. A later entry replaces an earlier one for the same register. "
    "Make sure to memorize it. I will quiz you about a register afterwards.\n"
)


def register_log(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """Asks for the register that was corrected."""
    return _draft(rng, length, any_query=False)


def register_log_any(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """The same documents, asked for any register: ranking corrections first is no way out."""
    return _draft(rng, length, any_query=True)


def _draft(rng: np.random.Generator, length: int, any_query: bool) -> Draft:
    n = min(REGISTERS, length // BLOCK_TOKENS // 4)
    if n < 2:
        raise ValueError(f"length: expected at least {8 * BLOCK_TOKENS} tokens for two registers, got {length}")
    names = rng.choice(NAMES, n, replace=False).tolist()
    low, high = VALUES
    values = (low + rng.choice(high - low, n + 1, replace=False)).tolist()
    order = rng.permutation([*range(n), 0]).tolist()  # register 0 is the corrected one
    wordings = rng.choice(WORDINGS, n + 1).tolist()
    drawn = int(rng.integers(n))  # drawn in both tasks, so that their documents are the same
    needles = []
    for place, register in enumerate(order):
        fact = f"R{names[register]} {wordings[place]} {values[place]}"
        needles.append(Needle(f"Register {fact}.", fact))
    questions = tuple(_asked(names[register], values, order, register) for register in range(n))
    return Draft(INSTRUCTION, tuple(needles), questions, asked=drawn if any_query else 0)


def _asked(name: int, values: Sequence[int], order: Sequence[int], register: int) -> Asked:
    last = max(place for place, found in enumerate(order) if found == register)
    return Asked(f"What is register R{name} set to?", f" Register R{name} is set to", (str(values[last]),), (last,))

"""What a continuation may say next, looked up in what stands there already.

    text       ... lit for the first time on 3 October 1891 . It ...
    written    It was lit for the first       ->      guessed: time on 3 October

A reply copies from its text, and small models repeat themselves. Guesses are read together in one forward, which costs
less than a forward for each: a forward of one token mostly moves the weights. Only those that are right are taken, so
what is written stays the same.
"""

from collections.abc import Sequence

from keepset.interventions.executors.layout import Tokens

LAST = 3
"""Tokens at the end that an earlier place must share: with fewer, more guesses are wrong than are worth reading."""
GUESSES = 4
"""Tokens that are guessed at most."""


def looked_up(tokens: Sequence[int], most: int) -> Tokens:
    """What followed the last earlier place that ends as ``tokens`` do; nothing where there is none."""
    end = tuple(tokens[-LAST:])
    for stop in range(len(tokens) - 1, LAST - 1, -1):
        if tuple(tokens[stop - LAST : stop]) == end:
            return tuple(tokens[stop : stop + min(most, GUESSES)])
    return ()

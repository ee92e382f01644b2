"""What is left of a text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Compressed:
    """The sentences that were kept, whole and in order."""

    text: str
    kept: tuple[tuple[int, int], ...]
    """Characters of the original text: first, and one after the last. Sentences that followed each other are one."""
    tokens_before: int
    """Of the original text, as the reader counts."""
    tokens_after: int
    """Of what was kept."""


def compressed(text: str, kept: list[tuple[int, int]], tokens_before: int, tokens_after: int) -> Compressed:
    """``kept`` are spans of ``text``, in order."""
    joined: list[tuple[int, int]] = []
    for start, stop in kept:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    short = "".join(text[start:stop] for start, stop in joined)
    return Compressed(short.strip(), tuple(joined), tokens_before, tokens_after)

"""A text without end, as it comes: compressed part by part, so that memory stays the same."""

from collections.abc import Iterable, Iterator

from keepset.compression.compressor import Compressor, TextBudget
from keepset.text.lexical import is_heading

PART = 60_000
"""Characters compressed at a time: about ten pages. A shorter text comes out as if it had been given whole."""


def compress_stream(
    lines: Iterable[str], compressor: Compressor, budget: TextBudget, question: str | None = None, part: int = PART
) -> Iterator[str]:
    """What is kept of each part, as soon as the part is there; parts end between lines."""
    for text in _parts(lines, part):
        if text.strip():
            yield compressor.compress(text, budget, question).text


def _parts(lines: Iterable[str], size: int) -> Iterator[str]:
    """Whole lines, about ``size`` characters at a time; a heading goes with what is under it.

    A log has neither paragraphs nor headings: after twice ``size`` any line begins the next part.
    """
    held: list[str] = []
    length = 0
    for line in lines:
        if length >= 2 * size or (length >= size and (not line.strip() or is_heading(line))):
            yield "".join(held)
            held, length = [], 0
        held.append(line)
        length += len(line)
    yield "".join(held)

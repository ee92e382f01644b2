"""What ``keepset compress`` does once its arguments are read."""

import io
import sys
from collections.abc import Iterator

from keepset.compression.compressed import Compressed
from keepset.compression.compressor import Compressor, parse_text_budget
from keepset.compression.stream import compress_stream


def compress_text(text: str, budget: str, question: str | None, device: str) -> Compressed:
    allowed = parse_text_budget(budget)  # what can be wrong, before the reader is loaded
    return Compressor(device=device).compress(text, allowed, question)


def compress_standard_input(budget: str, question: str | None, device: str) -> Iterator[str]:
    """Part by part: what is kept of one comes before the next is read."""
    allowed = parse_text_budget(budget)
    compressor = Compressor(device=device)
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    empty = True
    try:
        for short in compress_stream(lines, compressor, allowed, question):
            yield short
            empty = False
    except UnicodeDecodeError as error:
        raise ValueError(f"standard input: expected text in UTF-8, got something else: {error}") from error
    if empty:
        raise ValueError("standard input: expected some text to compress, got none")

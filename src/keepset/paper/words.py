"""Numbers and lists as a sentence has them, for captions that are written from the run."""

from collections.abc import Sequence

_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen",
)  # fmt: skip


def in_words(number: int) -> str:
    """5 -> five; larger numbers stay digits."""
    return _WORDS[number] if 0 <= number < len(_WORDS) else str(number)


def listed(items: Sequence[object]) -> str:
    """16, 32, 64 -> '16, 32 and 64'."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last

"""Somebody's text on a terminal: shown, never obeyed; and how long something takes, in words."""

import re

from rich.console import Console

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line break; embeddings, overrides and isolates, which turn the order in which later
characters are shown; and halves of surrogate pairs, which cannot be written at all."""


def harmless(text: str) -> str:
    r"""``text`` with what would steer a terminal written out: an escape becomes ``\x1b``, an override ``\u202e``."""
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """``text`` without line breaks, harmless: for tables and error messages."""
    return harmless(" ".join(text.split()))


def print_line(console: Console, text: str) -> None:
    """``text`` as one line that is neither marked up nor broken: it may hold a name somebody else chose."""
    console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """In the largest unit of which there are two."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"

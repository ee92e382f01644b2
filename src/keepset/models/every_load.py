"""What every load of a model needs, wherever it comes from."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

PROBE_TEXT = "The code for NARO is 4821.  It's naïve: 3.14, 漢字 🙂\n\n\tx = [1,   2]\n"
"""Text a tokenizer must give back unchanged."""


def check_complete(source: str | Path, report: dict[str, Any]) -> None:
    """Every weight must come from the file: transformers fills gaps with random numbers and only warns."""
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if found := sorted(map(str, report.get(kind) or ())):
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise ValueError(f"{source}: the weights are incomplete: {kind} {', '.join(found[:3])}{more}")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars unless somebody watches, and no warnings about choices made here on purpose."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(max(level, transformers_logging.ERROR))
    try:
        # One of the bars ignores transformers' own switch, so what nobody watches is sent nowhere.
        with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers_logging.set_verbosity(level)

"""What is explained in these tests, and how a report reads."""

import io
from collections.abc import Callable

from rich.console import Console

from keepset.blocks import KeepSet
from keepset.explain.report import Report

CONTEXT = "The code for NARO is 4821. The code for BELU is 3390.\nNaïve 🎉! The code is now 7154. No"
QUESTION = "What is the code for NARO?"

Rule = Callable[[KeepSet], bool]
"""Keep set -> whether the answer is given."""


def shown(report: Report, width: int = 200) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    report.show(console)
    return console.export_text()

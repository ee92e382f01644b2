"""What ``keepset explain`` found, and the three ways to draw it. Imports no torch."""

from typing import Any

from rich.console import Console

from keepset.explain.findings import Findings
from keepset.explain.page import page
from keepset.explain.terminal import show


class Report(Findings):
    """Which blocks of a context an answer depends on."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; the fields are those of ``Findings``."""
        return self.model_dump(mode="json")

    def to_html(self) -> str:
        """One page that needs nothing else."""
        return page(self)

    def show(self, console: Console | None = None) -> None:
        """Prints the report."""
        show(self, console or Console())

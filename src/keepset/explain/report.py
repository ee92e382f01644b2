"""What ``keepset explain`` found, and the ways to draw it. Imports no torch."""

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console

from keepset.explain.findings import BlockReport, Findings
from keepset.explain.page import html_page
from keepset.explain.terminal import show
from keepset.explain.words import cited

if TYPE_CHECKING:
    from pandas import DataFrame


class Report(Findings):
    """Which blocks of a context a reply depends on."""

    def top(self, k: int) -> list[BlockReport]:
        """The ``k`` blocks the reply rests on most: evidence first, then what the others restore alone."""
        if k < 1:
            raise ValueError(f"k: expected at least 1 block, got {k}")
        order = ("evidence", "also says it", "close", "not needed")
        ranked = sorted(self.blocks, key=lambda block: (order.index(self.role(block.number)), -self.nats(block.number)))
        return ranked[:k]

    def cited(self) -> str:
        """The reply, each sentence followed by the numbers of its source blocks."""
        return cited(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; the fields are those of ``Findings``."""
        return self.model_dump(mode="json")

    def to_pandas(self) -> "DataFrame":
        """A row for each part of the reply and each block; shares are None where they were not measured."""
        from pandas import DataFrame  # not needed to draw a report

        return DataFrame(
            [
                {
                    "part": number,
                    "part_text": part.text,
                    "worth": part.worth,
                    "block": block.number,
                    "text": self.text(block),
                    "role": part.role(block.number),
                    "restored": part.restored[block.number] if part.restored else None,
                    "carried": part.carried[block.number] if part.carried else None,
                    "attention": block.attention,
                }
                for number, part in enumerate(self.parts)
                for block in self.blocks
            ]
        )

    def to_html(self) -> str:
        """One page that needs nothing else."""
        return html_page([self])

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame, so that its style stays inside."""
        return f'<iframe srcdoc="{escape(self.to_html())}" sandbox width="100%" height="640" frameborder="0"></iframe>'

    def show(self, console: Console | None = None) -> None:
        """Prints the report."""
        show(self, console or Console())


def json_text(reports: Sequence[Report]) -> str:
    """One report as an object, several as a list of them."""
    data = [report.to_dict() for report in reports]
    return json.dumps(data[0] if len(data) == 1 else data, indent=2, ensure_ascii=False) + "\n"

"""Short documents that a visitor can try with one click: what they show, and what to ask."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Sample:
    """A document of the package and a question about it."""

    name: str
    """Of its file."""
    title: str
    """On its button."""
    question: str
    look: str
    """What makes it worth a look, in a sentence."""

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.txt").read_text(encoding="utf-8")


SAMPLES = (
    Sample(
        "stale-value",
        "A value that changed",
        "What is the code of the box now?",
        "Two sentences give a code for the box, and only the later one still holds.",
    ),
    Sample(
        "two-hop",
        "Two facts together",
        "Where does the harbour master live?",
        "One sentence says who the harbour master is, another where that person lives.",
    ),
    Sample(
        "needle",
        "One fact in an essay",
        "What is the secret number of the blue locker?",
        "One sentence has nothing to do with the others, and it alone is asked about.",
    ),
    Sample(
        "contract",
        "A contract, amended",
        "What is the price of a bicycle?",
        "The amendment raises a price that the agreement had set.",
    ),
    Sample(
        "prose",
        "A page of prose",
        "Who founded the glass workshop?",
        "Running text with names, years and reasons; ask it something else, too.",
    ),
)

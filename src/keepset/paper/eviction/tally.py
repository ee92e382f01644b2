"""Outcomes, question by question: any two policies that were run on the same part can be paired afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from keepset.paper.result import Coordinate, Metric
from keepset.paper.statistics import share

Outcome = bool | None
"""Of one question; None where it is not counted."""
MARKS: dict[Outcome, str] = {True: "1", False: "0", None: "."}


def share_of(what: str, outcomes: Sequence[Outcome], **at: Coordinate) -> Metric | None:
    """The share of what is counted, with every outcome beside it; None where nothing is."""
    counted = [outcome for outcome in outcomes if outcome is not None]
    if not counted:
        return None
    each = "".join(MARKS[outcome] for outcome in outcomes)
    return share(what, sum(counted), len(counted), **at).model_copy(update={"each": each})


def only_first(first: str, second: str) -> int:
    """How many questions are right in the first and wrong in the second, of the outcomes of one part."""
    if [mark == "." for mark in first] != [mark == "." for mark in second]:
        raise ValueError(f"outcomes: expected the same questions counted in both, got {first} and {second}")
    return sum(mark == "1" and other == "0" for mark, other in zip(first, second, strict=True))


@dataclass
class Tally:
    """What one policy did at one budget with the questions of a part."""

    preserved: list[Outcome] = field(default_factory=list)
    """Still answered; None where the model does not answer the question with everything visible."""
    kept: list[Outcome] = field(default_factory=list)
    """All evidence of the question was among the kept blocks."""

    def add(self, preserved: Outcome, kept: Outcome) -> None:
        self.preserved.append(preserved)
        self.kept.append(kept)

    def metrics(self, **at: Coordinate) -> list[Metric]:
        """Share preserved; share whose evidence was kept; share preserved of either kind. None where n is 0."""
        pairs = list(zip(self.preserved, self.kept, strict=True))
        shares = {
            "preserved": self.preserved,
            "evidence_kept": self.kept,
            "preserved_given_kept": [preserved if kept else None for preserved, kept in pairs],
            "preserved_given_dropped": [preserved if kept is False else None for preserved, kept in pairs],
        }
        return [metric for what, found in shares.items() if (metric := share_of(what, found, **at))]

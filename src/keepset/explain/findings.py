"""What was found, once, for a terminal, a browser and a program. Imports no torch."""

from collections.abc import Collection, Sequence
from typing import Literal

from keepset.files import Frozen

SCHEMA_VERSION = 3
"""Raise when a field changes its name or its meaning."""

Role = Literal["evidence", "also says it", "close", "not needed"]
"""What a block is to a part of the reply."""
POINTS = 0.2
"""How much more a block must be about the question than those the reply rests on to be pointed at. The middle of what
a few questions of SQuAD's training articles left open (docs/log.md)."""


class BlockReport(Frozen):
    """One block of the context."""

    number: int
    start: int
    """Its first character in the context."""
    stop: int
    """One after its last character."""
    tokens: int
    about: float | None = None
    """How much the block alone is about the question (``labels.about``); None where that was not read."""
    attention: float | None = None
    """Share of the reply positions' attention, mean over them, over layers and over heads; None where not read."""


class PartReport(Frozen):
    """A sentence of the reply, or the span that was asked about, and what it rests on."""

    text: str
    start: int
    """Its first character in ``said``."""
    stop: int
    """One after its last character."""
    worth: float
    """Nats of log-probability that the whole text adds to it, over the tokens the text speaks to."""
    evidence: tuple[int, ...]
    """The smallest set of blocks found that restores nearly all of that; empty where the text adds nothing, or where no
    few blocks do."""
    others: tuple[int, ...]
    """Blocks that are as good, each alone."""
    close: tuple[int, ...]
    """Blocks that restore somewhat less than the best one: a near-tie."""
    spoken: bool
    """The text speaks to it; False where the model would write it anyway."""
    total: float
    """Share of the worth that the evidence restores; without evidence, that the best few blocks do."""
    left: float | None
    """Share of the worth that is left with evidence and others hidden; None where that was not measured."""
    restored: tuple[float, ...]
    """Share of the worth that each block restores alone; may be below 0 or above 1."""
    carried: tuple[float, ...]
    """Share of the worth that hiding each block takes, negative where hiding helps; empty where not measured."""

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(sorted({*self.evidence, *self.others}))

    def role(self, number: int) -> Role:
        if number in self.evidence:
            return "evidence"
        if number in self.others:
            return "also says it"
        return "close" if number in self.close else "not needed"


class Replies(Frozen):
    """What the model writes, greedily."""

    everything: str
    """With everything visible."""
    only_evidence: str | None
    """How the reply begins with only the evidence visible; None where there is none."""
    without_evidence: str | None
    """How the reply begins with the evidence, and what says it too, hidden; None where there is none."""
    only_pointed: str | None = None
    """How the reply begins with only the block visible that the question points at; None where the reply rests on that
    block or on one that is nearly as much about the question, the text does not seem to be about it, or the answer was
    given."""


class CostReport(Frozen):
    """What it took, everything included."""

    forwards: int
    """Calls of the model; one runs many keep sets side by side."""
    keep_sets: int
    """Keep sets run."""
    tokens: int
    """Token positions that went through the model."""
    seconds: float


class Findings(Frozen):
    """Which blocks of a context a reply depends on."""

    schema_version: int = SCHEMA_VERSION
    rule: Literal["worth"] = "worth"
    """How evidence is told: see ``labels.support``."""
    model: str
    effort: str
    """How it was measured: evidence, exact, grouped or certified."""
    context: str
    question: str
    said: str
    """What is explained: the model's reply, or a given answer that does not stand in it."""
    generated: bool
    """The model wrote it; False when it was given."""
    about: float
    """How much the text is about the question: see ``labels.about``."""
    about_threshold: float
    """From where on the text seems to be about the question."""
    in_text: bool
    """The text seems to be about the question, and adds something to the reply."""
    pointed: int | None = None
    """The block that alone is most about the question, whatever the reply rests on; None where there are no blocks."""
    parts: tuple[PartReport, ...]
    blocks: tuple[BlockReport, ...]
    replies: Replies
    cost: CostReport

    @property
    def evidence(self) -> tuple[int, ...]:
        """The evidence of all parts."""
        return tuple(sorted({number for part in self.parts for number in part.evidence}))

    def text(self, block: BlockReport) -> str:
        return self.context[block.start : block.stop].strip()

    def nats(self, number: int) -> float:
        """What a block alone restores, over all parts; hiding nothing of it where it restores less than nothing."""
        return sum(part.worth * max(0.0, part.restored[number]) for part in self.parts if part.evidence)

    def strength(self, number: int) -> float:
        """The largest share of any part that a block restores alone, between 0 and 1: the length of its bar."""
        shares = [part.restored[number] for part in self.parts if part.evidence]
        return min(1.0, max(0.0, *shares)) if shares else 0.0

    def role(self, number: int) -> Role:
        """The best of what a block is to any part."""
        roles = {part.role(number) for part in self.parts}
        order: tuple[Role, ...] = ("evidence", "also says it", "close")
        return next((role for role in order if role in roles), "not needed")


def points_elsewhere(pointed: int, nearness: Sequence[float], rests_on: Collection[int]) -> bool:
    """The reply does not rest on the block that the question points at, but on others that are clearly less about
    it."""
    return pointed not in rests_on and all(nearness[pointed] - nearness[number] >= POINTS for number in rests_on)

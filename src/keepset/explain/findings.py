"""What was found, once, for a terminal, a browser and a program. Imports no torch."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 2
"""Raise when a field changes its name or its meaning."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BlockReport(_Frozen):
    """One block and what hiding it did."""

    number: int
    start: int
    """Its first character in the context."""
    stop: int
    """One after its last character."""
    tokens: int
    drop: float
    """Nats of log-probability the answer loses when the block is hidden; negative where hiding helps."""
    measured: bool
    """By a forward of its own. False: a cheaper effort cleared the block together with others, and drop is 0."""
    flip: bool
    """The answer is given with everything visible, and not with this block hidden."""
    sufficient: bool
    """The answer is given with only this block visible."""
    attention: float
    """Share of the answer positions' attention, mean over them, over layers and over heads."""
    evidence: bool
    """In the evidence set."""


class Answers(_Frozen):
    """What the model writes, greedily."""

    clean: str
    """With everything visible."""
    only_evidence: str
    """With only the evidence set visible."""
    without_evidence: str
    """With the evidence set hidden."""
    no_context: str
    """With every block hidden."""


class CostReport(_Frozen):
    """What it took, everything included."""

    forwards: int
    """Calls of the model; one runs many keep sets side by side."""
    keep_sets: int
    """Keep sets run."""
    tokens: int
    """Token positions that went through the model."""
    seconds: float
    effect_tokens: int
    """The part of ``tokens`` that measured drops, flips and sufficiency."""
    plain_tokens: int
    """What 2N + 1 forwards of the whole prompt take for the same effects."""

    @property
    def multiple(self) -> float:
        """How many times as many tokens the plain way takes."""
        return self.plain_tokens / self.effect_tokens


class Findings(_Frozen):
    """Which blocks of a context an answer depends on."""

    schema_version: int = SCHEMA_VERSION
    model: str
    effort: str
    """How effects were measured: exact, grouped or certified."""
    context: str
    question: str
    opening: str
    """The model's own words before the answer: visible while blocks are hidden, and not part of what is measured."""
    answer: str
    generated: bool
    """The answer is the model's own; False when it was given."""
    gives_answer: bool
    """The model gives the answer with everything visible."""
    knows_answer: bool
    """The model gives the answer with every block hidden."""
    log_prob: float
    """Log-probability of the answer with everything visible."""
    case: Literal["alternatives", "necessary", "empty"]
    """Each block of the evidence set is enough alone; or none is, and each is necessary; or it is empty."""
    family: tuple[tuple[int, ...], ...]
    """Minimal sufficient sets that were found."""
    complete: bool
    """There are no others, if hiding more never repairs the answer."""
    blocks: tuple[BlockReport, ...]
    answers: Answers
    cost: CostReport

    @property
    def evidence(self) -> tuple[int, ...]:
        """The numbers of the blocks in the evidence set."""
        return tuple(block.number for block in self.blocks if block.evidence)

    def text(self, block: BlockReport) -> str:
        return self.context[block.start : block.stop].strip()

    def shade(self, block: BlockReport) -> float:
        """The effect of a block between -1 and 1, against the largest of the report (and at least one nat)."""
        return block.drop / max(1.0, *(abs(other.drop) for other in self.blocks))

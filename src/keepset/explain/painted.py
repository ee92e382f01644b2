"""A document as it was given, its blocks painted. For every page of keepset: all text is escaped."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

STRONGEST = 0.45
"""Opacity of a block of strength 1: the text on it stays readable in light and dark."""


@dataclass(frozen=True)
class Painted:
    """One block, and how it looks."""

    number: int
    start: int
    """Its first character in the document."""
    stop: int
    """One after its last character."""
    strength: float
    """Of its colour, between 0 and 1."""
    title: str
    """Shown to who points at it."""
    classes: str = ""
    """CSS classes beside ``block``."""
    anchor: str | None = None
    """What links to it name."""
    colour: str = "marked"
    """A CSS variable of the page, as red, green and blue."""


def painted_text(document: str, blocks: Iterable[Painted]) -> str:
    """HTML; ``blocks`` stand in order, text outside them stays plain."""
    parts, end = [], 0
    for block in blocks:
        parts += [escape(document[end : block.start]), _painted(document, block)]
        end = block.stop
    return "".join(parts) + escape(document[end:])


def _painted(document: str, block: Painted) -> str:
    text = document[block.start : block.stop]
    said = text.rstrip()
    anchor = f'id="{escape(block.anchor)}" ' if block.anchor else ""
    return (
        f'<span {anchor}class="{escape(f"block {block.classes}".strip())}" '
        f'style="background: rgba(var(--{block.colour}), {STRONGEST * block.strength:.3f})" '
        f'title="{escape(block.title)}">{escape(said)}</span><sup>{block.number}</sup>{escape(text[len(said) :])}'
    )

"""The blocks a router was trained on: it scores documents cut in the same way, and no others."""

from typing import Annotated, Literal, cast, get_args

from pydantic import Field

from keepset.text.split import Blocks, find_width

Rule = Literal["sentence", "paragraph", "line", "own"]
"""How the labels' contexts were cut; ``own``: the rows brought their blocks themselves."""
TrainedBlocks = Rule | Annotated[int, Field(ge=1)]
"""A rule, or a number of tokens."""


def find_blocks(blocks: str | int) -> TrainedBlocks:
    """``128``, ``"128"`` and ``"128 tokens"`` are one way to cut, and written in one way."""
    if blocks in get_args(Rule):
        return cast(Rule, blocks)
    width = find_width(blocks)
    if width is None:
        raise ValueError(f"blocks: expected {', '.join(get_args(Rule))} or a number of tokens, got {blocks!r}")
    return width


def blocks_to_read(trained: TrainedBlocks, wanted: Blocks | None) -> Blocks:
    """How a document is cut for a router: as its labels were. Anything else is refused.

    Where the labels brought their own blocks, nobody can repeat the cut but the caller.
    """
    if trained == "own":
        if wanted is None:
            raise ValueError(
                "blocks: expected how to cut documents, because this router's labels brought their own blocks, got "
                "none; pass blocks that are like those"
            )
        return wanted
    given = find_blocks(wanted) if isinstance(wanted, str | int) else wanted
    if given is not None and given != trained:
        raise ValueError(
            f"blocks: expected {describe(trained)}, which this router was trained on, got {describe(given)}; leave "
            "blocks out, or label and train with such blocks"
        )
    return trained


def describe(blocks: Blocks) -> str:
    """For messages."""
    if isinstance(blocks, int):
        return f"blocks of {blocks} tokens"
    return f"{blocks} blocks" if isinstance(blocks, str) else "character spans"

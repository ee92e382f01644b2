"""What the blocks and the query of a context say, read from the tokens alone.

It shares nothing with the generators but the token ids, so it can hold them to what they annotate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from keepset.blocks import Span
from keepset.paper.testbed.tasks.vocabulary import FILLER, Vocabulary

Key = tuple[int, int]
"""A family token and a member token."""


@dataclass(frozen=True)
class Record:
    """What one block says."""

    key: Key
    content: int | Key
    """The value token, or the key that a pointer record points to."""


def read_records(tokens: Tensor, blocks: tuple[Span, ...], vocabulary: Vocabulary) -> list[Record | None]:
    """The record of each block; None for a block of filler."""
    records: list[Record | None] = []
    for i, span in enumerate(blocks):
        body = [int(token) for token in tokens[span.start : span.stop]]
        while body and body[-1] == FILLER:
            body.pop()
        kinds = _kinds(body, vocabulary)
        if kinds == "Wfmv":
            records.append(Record((body[1], body[2]), body[3]))
        elif kinds == "Wfmfm":
            records.append(Record((body[1], body[2]), (body[3], body[4])))
        elif not body:
            records.append(None)
        else:
            shown = " ".join(map(vocabulary.name, body))
            raise ValueError(f"block {i}: expected WRITE f m v or WRITE f m f m, then filler, got {shown}")
    return records


def read_query(tokens: Tensor, query: Span, vocabulary: Vocabulary) -> Key:
    """The key asked for; its member is ALL when the query counts a family."""
    body = [int(token) for token in tokens[query.start : query.stop]]
    if _kinds(body, vocabulary) not in ("Qfm", "QfA"):
        raise ValueError(f"query: expected QUERY f m or QUERY f ALL, got {' '.join(map(vocabulary.name, body))}")
    return body[1], body[2]


def _kinds(body: Sequence[int], vocabulary: Vocabulary) -> str:
    """One letter per token, the first of its name: W, Q, A, f, m, v, # or ·."""
    return "".join(vocabulary.name(token)[0] for token in body)

"""What a task decides (keys, values, pointers, queries), and how that becomes tokens.

block 0                block 1               block 2 ...            queries
WRITE f3 m1 v7  ·      WRITE f0 m2 f3 m1     ...                    QUERY f0 m2 v7  QUERY ...
(a value record)       (a pointer record)                                     ^ v7 predicted here
"""

from dataclasses import dataclass

import numpy as np
import torch

from keepset.blocks import ExampleBatch, Span
from keepset.paper.testbed.tasks.vocabulary import ALL, FILLER, QUERY, WRITE, Ids, Vocabulary

RECORD_TOKENS = 4
"""WRITE family member value."""
POINTER_TOKENS = 5
"""WRITE family member family member."""
QUERY_TOKENS = 4
"""QUERY family member value. No marker stands between the key and the value: with one, the
retrieval circuit never forms (paper, appendix B)."""

NO_POINTER = -1


@dataclass
class Sheet:
    """A batch of contexts before tokenisation. Letters as in the design: B, N blocks, Q queries."""

    keys: Ids
    """(B, N) key number of each record."""
    values: Ids
    """(B, N) value number of each record; unread where the record is a pointer."""
    pointers: Ids
    """(B, N) key number a pointer record points to, or NO_POINTER."""
    query_keys: Ids
    """(B, Q) key number asked for; for a whole-family query any key of that family."""
    whole_family: bool
    """True when every query counts the records of a family (aggregation)."""
    answers: Ids
    """(B, Q) token id of each answer."""
    asked: Ids
    """(B, Q) False where a slot repeats an earlier query only to fill the format."""
    family: Ids
    """(B, S, N) minimal sufficient sets of the first query; rows of zeros are padding."""


def encode(sheet: Sheet, vocabulary: Vocabulary, width: int) -> ExampleBatch:
    """Writes a sheet as tokens, blocks of ``width`` first, then the queries."""
    batch, n_blocks = sheet.keys.shape
    n_queries = sheet.query_keys.shape[1]
    is_pointer = sheet.pointers != NO_POINTER
    needed = POINTER_TOKENS if is_pointer.any() else RECORD_TOKENS
    if width < needed:
        raise ValueError(f"block width must be at least {needed} for these records, got {width}")

    blocks = np.full((batch, n_blocks, width), FILLER, dtype=np.int64)
    blocks[..., 0] = WRITE
    blocks[..., 1] = vocabulary.family_token(sheet.keys)
    blocks[..., 2] = vocabulary.member_token(sheet.keys)
    blocks[..., 3] = np.where(is_pointer, vocabulary.family_token(sheet.pointers), vocabulary.value_token(sheet.values))
    if needed == POINTER_TOKENS:
        blocks[..., 4] = np.where(is_pointer, vocabulary.member_token(sheet.pointers), FILLER)

    queries = np.empty((batch, n_queries, QUERY_TOKENS), dtype=np.int64)
    queries[..., 0] = QUERY
    queries[..., 1] = vocabulary.family_token(sheet.query_keys)
    queries[..., 2] = ALL if sheet.whole_family else vocabulary.member_token(sheet.query_keys)
    queries[..., 3] = sheet.answers

    context = n_blocks * width
    tokens = np.concatenate([blocks.reshape(batch, -1), queries.reshape(batch, -1)], axis=1)
    return ExampleBatch(
        tokens=torch.from_numpy(tokens),
        blocks=tuple(Span(i * width, (i + 1) * width) for i in range(n_blocks)),
        answer_rows=tuple(context + QUERY_TOKENS * q + 2 for q in range(n_queries)),
        answers=torch.from_numpy(np.asarray(sheet.answers, dtype=np.int64)),
        asked=torch.from_numpy(np.asarray(sheet.asked, dtype=bool)),
        family=torch.from_numpy(np.asarray(sheet.family, dtype=bool)),
    )


def distinct_keys(rng: np.random.Generator, batch: int, count: int, keys: int) -> Ids:
    """(B, count) key numbers, distinct within a row."""
    if count > keys:
        raise ValueError(
            f"more records than keys: {count} distinct keys asked for, the vocabulary has {keys}; "
            "use fewer blocks or more families or members"
        )
    return rng.random((batch, keys)).argsort(axis=1)[:, :count]


def permute(rng: np.random.Generator, batch: int, count: int) -> Ids:
    """(B, count) a random permutation per row."""
    return rng.random((batch, count)).argsort(axis=1)


def pick(rows: Ids, columns: Ids) -> Ids:
    """``rows[b, columns[b, i]]`` for every b and i."""
    return np.take_along_axis(rows, columns, axis=1)


def indicator(positions: Ids, n_blocks: int) -> Ids:
    """(B, K) block numbers as a (B, 1, N) family of one set."""
    sets = np.zeros((positions.shape[0], 1, n_blocks), dtype=bool)
    np.put_along_axis(sets[:, 0], positions, True, axis=1)
    return sets


def ask(order: Ids, n_queries: int) -> tuple[Ids, Ids]:
    """The first ``n_queries`` of what may be asked, and which of those slots ask something new.

    A repeated query would be answered by copying the earlier answer, which teaches nothing about
    the context; so where there is too little to ask, the slots are filled but not supervised.
    """
    distinct = order.shape[1]
    slots = np.arange(n_queries)
    asked = np.tile(slots < distinct, (order.shape[0], 1))
    return order[:, slots % distinct], asked

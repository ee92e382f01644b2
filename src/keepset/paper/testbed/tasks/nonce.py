"""Nonce records for the synthetic tasks: what hidden blocks are overwritten with, so that nothing is copied blindly.

Filler leaves a lone value record as the only value in sight, and a model shown one value says it. A nonce keeps the
kind of the block it replaces and changes what it says: a fresh key, another value, a pointer into another nonce.

    block      0              1                 2                 3
    tokens     WRITE f3 m1 v7 WRITE f0 m2 f3 m1 WRITE f5 m0 f0 m2 WRITE f1 m4 v2
    nonce      WRITE f6 m3 v1 WRITE f2 m9 f6 m3 WRITE f7 m7 f2 m9 WRITE f4 m0 v5     a chain of its own
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from keepset.blocks import Example
from keepset.paper.testbed.tasks.oracle import Record, read_query, read_records
from keepset.paper.testbed.tasks.vocabulary import ALL, FILLER, Vocabulary

Blocks = list[list[int]]


def nonce_blocks(vocabulary: Vocabulary, seed: int, alternatives: int = 2) -> Callable[[Example], list[Blocks]]:
    """Replacements for ``Overwrite``: ``alternatives`` lists of one token sequence per block.

    Keys are in neither the context nor the query, values are never the answer, and what pointed to another record
    points to that record's nonce, so that hidden chains stay chains: they lead, from another key, to another value.
    """
    if alternatives < 1:
        raise ValueError(f"alternatives: expected at least 1, got {alternatives}")

    def replacements(example: Example) -> list[Blocks]:
        rng = np.random.default_rng((seed, zlib.crc32(example.tokens.numpy().tobytes())))
        records = read_records(example.tokens, example.blocks, vocabulary)
        asked = read_query(example.tokens, example.query, vocabulary)
        return [_nonce(rng, example, records, asked, vocabulary) for _ in range(alternatives)]

    return replacements


def _nonce(
    rng: np.random.Generator,
    example: Example,
    records: Sequence[Record | None],
    asked: tuple[int, int],
    vocabulary: Vocabulary,
) -> Blocks:
    used = {record.key for record in records if record} | {asked}
    free = _keys(vocabulary, avoid=used, avoid_family=asked[0] if asked[1] == ALL else None)
    if len(free) < len(records):
        raise ValueError(
            f"nonce: expected at least {len(records)} unused keys, got {len(free)}; use a larger vocabulary"
        )
    fresh = [free[i] for i in rng.permutation(len(free))[: len(records)]]
    renamed = {record.key: key for record, key in zip(records, fresh, strict=True) if record}
    first_value = int(vocabulary.value_token(np.array(0)))
    values = [v for v in range(first_value, first_value + vocabulary.values) if v not in example.answer]
    blocks = []
    for record, key, span in zip(records, fresh, example.blocks, strict=True):
        width = span.stop - span.start
        if record is None:
            body = [FILLER] * width
        elif isinstance(record.content, tuple):
            target = renamed.get(record.content, fresh[int(rng.integers(len(fresh)))])
            body = [int(example.tokens[span.start]), *key, *target]
        else:
            body = [int(example.tokens[span.start]), *key, values[int(rng.integers(len(values)))]]
        blocks.append(body + [FILLER] * (width - len(body)))
    return blocks


def _keys(vocabulary: Vocabulary, avoid: set[tuple[int, int]], avoid_family: int | None) -> list[tuple[int, int]]:
    """Every key of the vocabulary, as tokens, that is not to be avoided."""
    numbers = np.arange(vocabulary.keys)
    pairs = zip(vocabulary.family_token(numbers).tolist(), vocabulary.member_token(numbers).tolist(), strict=True)
    return [pair for pair in pairs if pair not in avoid and pair[0] != avoid_family]

"""A brute-force oracle: answers a query, and finds the family of an example, from the tokens alone."""

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from torch import Tensor

from keepset.blocks import Example, Family, KeepSet, Span, check_keep_set
from keepset.paper.testbed.tasks.oracle import Key, Record, read_query, read_records
from keepset.paper.testbed.tasks.vocabulary import ALL, MAX_COUNT, Vocabulary

MAX_BLOCKS = 14
"""A family takes up to 2**N answers; beyond this many blocks that is no longer a test but a wait."""


def oracle_answer(
    tokens: Tensor, blocks: tuple[Span, ...], query: Span, vocabulary: Vocabulary, keep: KeepSet | None = None
) -> int | None:
    """The answer token when only the blocks in ``keep`` (all, if None) are visible; None without an answer."""
    keep = frozenset(range(len(blocks))) if keep is None else keep
    check_keep_set(keep, len(blocks))
    records = read_records(tokens, blocks, vocabulary)
    return _answer([records[i] for i in sorted(keep)], read_query(tokens, query, vocabulary), vocabulary)


def oracle_family(example: Example, vocabulary: Vocabulary) -> Family:
    """Every set of blocks that gives the example's answer while none of its proper subsets does."""
    n_blocks = len(example.blocks)
    if n_blocks > MAX_BLOCKS:
        raise ValueError(
            f"oracle family: expected at most {MAX_BLOCKS} blocks (it tries every subset), got {n_blocks}; "
            "use a shorter context"
        )
    records = read_records(example.tokens, example.blocks, vocabulary)
    asked = read_query(example.tokens, example.query, vocabulary)
    minimal: list[KeepSet] = []
    for size in range(n_blocks + 1):  # smaller sets first, so a set that holds none found so far is minimal
        for keep in map(frozenset, combinations(range(n_blocks), size)):
            if any(found <= keep for found in minimal):
                continue
            if (_answer([records[i] for i in sorted(keep)], asked, vocabulary),) == example.answer:
                minimal.append(keep)
    return frozenset(minimal)


def _answer(visible: Iterable[Record | None], asked: Key, vocabulary: Vocabulary) -> int | None:
    records = [record for record in visible if record is not None]
    if asked[1] == ALL:
        count = sum(record.key[0] == asked[0] for record in records)
        return int(vocabulary.count_token(np.array(count))) if 1 <= count <= MAX_COUNT else None
    latest = {record.key: record.content for record in records}  # later records replace earlier ones
    content: int | Key | None = asked
    for _ in range(len(latest) + 1):  # a longer walk goes in a circle
        if not isinstance(content, tuple):
            return content
        content = latest.get(content)
    return None if isinstance(content, tuple) else content

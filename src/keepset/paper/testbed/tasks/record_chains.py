"""Two hops in natural language: the record that holds the answer never names what is asked for (paper, Section 7).

block 0    The code for BELU is 4821.
block 1    The code for DOFI is the same as the code for RUKA.
block 2    The code for NARO is the same as the code for BELU.
block 3    The code for RUKA is 3390.
query      What is the code for NARO? ... The code for NARO is
answer     4821          candidates 4821, 3390, ...          family {{0, 2}}; 2 is the pointer, 0 the value

Half of the records are pointers, each to a value record of its own, in any order; candidates are the values of other
chains, so that neither the only pointer nor the only code in sight gives the answer away.
"""

from dataclasses import dataclass, fields

import numpy as np
from transformers import PreTrainedTokenizerBase

from keepset.paper.testbed.tasks.records import (
    CANDIDATES,
    CODES,
    NAMES,
    Asked,
    RecordExample,
    key_name,
    write_example,
)
from keepset.paper.testbed.tasks.sheet import distinct_keys
from keepset.text.prompt import check_tokenizer


@dataclass(frozen=True)
class ChainExample(RecordExample):
    """An example of two hops."""

    pointer: int = -1
    """The record that names what is asked for and where its code stands."""
    value: int = -1
    """The record that holds the code."""


def sample_record_chains(
    tokenizer: PreTrainedTokenizerBase, seed: int, n_records: int, n: int = 1, first: int = 0
) -> list[ChainExample]:
    """``n`` examples from number ``first`` on; example i depends on ``seed`` and i only."""
    check_tokenizer(tokenizer)
    if n_records < 2 * CANDIDATES or n_records % 2:
        raise ValueError(
            f"n_records: expected an even number, at least {2 * CANDIDATES} (a chain for each of {CANDIDATES} "
            f"candidates), got {n_records}"
        )
    return [_sample(tokenizer, np.random.default_rng((seed, i)), n_records // 2) for i in range(first, first + n)]


def _sample(tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, chains: int) -> ChainExample:
    """Chain 0 is the one asked for."""
    names = [key_name(key) for key in distinct_keys(rng, 1, 2 * chains, NAMES.keys)[0].tolist()]
    codes = rng.permutation(CODES)[:chains].tolist()
    pointers = [
        f"The code for {name} is the same as the code for {target}."
        for name, target in zip(names[:chains], names[chains:], strict=True)
    ]
    values = [f"The code for {name} is {code}." for name, code in zip(names[chains:], codes, strict=True)]
    order = rng.permutation(2 * chains).tolist()
    sentences = [[*pointers, *values][i] for i in order]
    pointer, value = order.index(0), order.index(chains)
    choices = rng.permutation(codes[:CANDIDATES]).tolist()
    asked = Asked(names[0], codes[0], choices)
    written = write_example(tokenizer, sentences, asked, frozenset({pointer, value}))
    return ChainExample(
        **{field.name: getattr(written, field.name) for field in fields(written)}, pointer=pointer, value=value
    )

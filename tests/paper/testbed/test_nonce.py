"""Nonce records: of the same kind and length, and saying nothing that the context or the answer says."""

import pytest
import torch

from keepset.blocks import Example
from keepset.interventions import Overwrite
from keepset.paper.testbed.tasks import Vocabulary, sample_condition
from keepset.paper.testbed.tasks.nonce import nonce_blocks
from keepset.paper.testbed.tasks.oracle import read_query, read_records
from tests.oracle import oracle_answer

VOCABULARY = Vocabulary(families=6, members=8, values=8)


def examples(condition: str, n: int = 6, width: int = 6) -> list[Example]:
    batch = sample_condition(condition, seed=3, batch=n, n_blocks=12, width=width, vocabulary=VOCABULARY)
    return [batch.example(i) for i in range(n)]


@pytest.mark.parametrize("condition", ["unique", "latest_write", "multihop", "multihop_redundant", "aggregation"])
def test_a_nonce_keeps_the_kind_and_changes_the_rest(condition: str) -> None:
    for example in examples(condition):
        records = read_records(example.tokens, example.blocks, VOCABULARY)
        asked = read_query(example.tokens, example.query, VOCABULARY)
        used = {record.key for record in records if record} | {asked}
        for blocks in nonce_blocks(VOCABULARY, seed=1)(example):
            spans = tuple(example.blocks)
            nonces = read_records(torch.tensor([token for block in blocks for token in block]), spans, VOCABULARY)
            keys = [nonce.key for nonce in nonces if nonce]
            assert len(set(keys)) == len(keys) == 12
            assert not used & set(keys)
            for record, nonce in zip(records, nonces, strict=True):
                assert record is not None
                assert nonce is not None
                assert isinstance(record.content, tuple) == isinstance(nonce.content, tuple)
                assert nonce.content not in example.answer
                if isinstance(nonce.content, tuple):
                    assert nonce.content in keys, "what pointed to a record points to a nonce"


def test_hidden_chains_stay_chains() -> None:
    for example in examples("multihop"):
        (chain,) = example.family or ()
        replaced = Overwrite(nonce_blocks(VOCABULARY, seed=1)).views(example, frozenset())[0].tokens
        records = read_records(replaced, example.blocks, VOCABULARY)
        value, second, first = (records[block] for block in sorted(chain))
        assert first is not None
        assert second is not None
        assert value is not None
        assert (first.content, second.content) == (second.key, value.key)


@pytest.mark.parametrize("condition", ["unique", "duplicate", "multihop", "multihop_redundant", "aggregation"])
def test_a_sufficient_set_among_nonces_still_answers(condition: str) -> None:
    operator = Overwrite(nonce_blocks(VOCABULARY, seed=2))
    for example in examples(condition):
        for keep in example.family or ():
            for view in operator.views(example, keep):
                found = oracle_answer(view.tokens, example.blocks, example.query, VOCABULARY)
                assert (found,) == example.answer
        for view in operator.views(example, frozenset()):
            assert (oracle_answer(view.tokens, example.blocks, example.query, VOCABULARY),) != example.answer


def test_the_same_example_gets_the_same_nonces() -> None:
    one, other = examples("unique", n=2)
    replacements = nonce_blocks(VOCABULARY, seed=0, alternatives=3)
    assert replacements(one) == replacements(one)
    assert replacements(one) != replacements(other)
    assert len(replacements(one)) == 3
    assert replacements(one)[0] != replacements(one)[1]


def test_too_few_keys_are_said() -> None:
    small = Vocabulary(families=2, members=6, values=4)
    batch = sample_condition("unique", seed=0, batch=1, n_blocks=9, width=4, vocabulary=small)
    with pytest.raises(ValueError, match="nonce: expected at least 9 unused keys, got 3; use a larger vocabulary"):
        nonce_blocks(small, seed=0)(batch.example(0))
    with pytest.raises(ValueError, match="alternatives: expected at least 1, got 0"):
        nonce_blocks(small, seed=0, alternatives=0)

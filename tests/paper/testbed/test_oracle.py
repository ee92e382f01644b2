"""The oracle itself, on contexts small enough to read."""

import pytest
import torch

from keepset.blocks import Example, Span
from keepset.paper.testbed.tasks import Vocabulary
from tests.oracle import oracle_answer, oracle_family

VOCABULARY = Vocabulary(families=3, members=3, values=4)
IDS = {VOCABULARY.name(token): token for token in range(VOCABULARY.size)}
WIDTH = 6


def example(*records: str, query: str, answer: str = "v0") -> Example:
    """Each record in a block of its own, padded with filler."""
    rows = [[IDS[name] for name in record.split()] for record in records]
    tokens = [token for row in rows for token in row + [IDS["·"]] * (WIDTH - len(row))]
    context = len(tokens)
    tokens += [IDS[name] for name in query.split()]
    blocks = tuple(Span(i * WIDTH, (i + 1) * WIDTH) for i in range(len(rows)))
    return Example(torch.tensor(tokens), blocks, Span(context, len(tokens)), (IDS[answer],))


def answered(found: Example, keep: set[int] | None = None) -> str | None:
    visible = None if keep is None else frozenset(keep)
    token = oracle_answer(found.tokens, found.blocks, found.query, VOCABULARY, visible)
    return None if token is None else VOCABULARY.name(token)


def family(found: Example) -> set[tuple[int, ...]]:
    return {tuple(sorted(keep)) for keep in oracle_family(found, VOCABULARY)}


def test_the_latest_visible_write_wins() -> None:
    written = example("WRITE f0 m0 v1", "WRITE f0 m1 v2", "WRITE f0 m0 v3", query="QUERY f0 m0", answer="v3")
    assert answered(written) == "v3"
    assert answered(written, {0, 1}) == "v1"
    assert answered(written, {1}) is None
    assert family(written) == {(2,)}


def test_pointers_are_followed_to_the_value_wherever_they_stand() -> None:
    chain = example("WRITE f1 m1 f2 m2", "WRITE f2 m2 v3", "WRITE f0 m0 f1 m1", query="QUERY f0 m0", answer="v3")
    assert answered(chain) == "v3"
    assert answered(chain, {0, 2}) is None
    assert family(chain) == {(0, 1, 2)}


def test_a_later_pointer_replaces_an_earlier_one_but_both_chains_suffice() -> None:
    chains = example(
        "WRITE f1 m1 v3", "WRITE f0 m0 f1 m1", "WRITE f2 m2 v3", "WRITE f0 m0 f2 m2", query="QUERY f0 m0", answer="v3"
    )
    assert answered(chains, {0, 1, 3}) is None
    assert family(chains) == {(0, 1), (2, 3)}


def test_pointers_in_a_circle_have_no_answer() -> None:
    assert answered(example("WRITE f0 m0 f1 m1", "WRITE f1 m1 f0 m0", query="QUERY f0 m0")) is None
    assert answered(example("WRITE f0 m0 f0 m0", query="QUERY f0 m0")) is None


def test_a_whole_family_is_counted_up_to_five() -> None:
    counted = example("WRITE f0 m0 v1", "WRITE f1 m0 v1", "WRITE f0 m2 v1", query="QUERY f0 ALL", answer="#2")
    assert answered(counted) == "#2"
    assert answered(counted, {1}) is None
    assert family(counted) == {(0, 2)}
    assert answered(example(*["WRITE f0 m0 v1"] * 6, query="QUERY f0 ALL")) is None


def test_a_block_of_filler_says_nothing() -> None:
    assert family(example("·", "WRITE f0 m0 v0", "·", query="QUERY f0 m0")) == {(1,)}


def test_an_answer_the_context_does_not_give_has_no_family() -> None:
    assert family(example("WRITE f0 m0 v1", query="QUERY f0 m0", answer="v2")) == set()


@pytest.mark.parametrize(
    "record", ["WRITE f0 v1", "WRITE f0 m0", "WRITE f0 m0 · v1", "QUERY f0 m0 v1", "WRITE f0 m0 f1"]
)
def test_a_block_that_is_no_record_is_refused(record: str) -> None:
    broken = example("WRITE f0 m0 v1", record, query="QUERY f0 m0")
    with pytest.raises(ValueError, match=f"block 1: expected WRITE f m v or WRITE f m f m, then filler, got {record}"):
        answered(broken)


def test_a_query_that_is_no_query_is_refused() -> None:
    with pytest.raises(ValueError, match="query: expected QUERY f m or QUERY f ALL, got WRITE f0 m0"):
        answered(example("WRITE f0 m0 v1", query="WRITE f0 m0"))


def test_a_long_context_is_refused_instead_of_waited_for() -> None:
    long = example(*["WRITE f0 m0 v0"] * 15, query="QUERY f0 m0")
    with pytest.raises(ValueError, match=r"expected at most 14 blocks .* got 15; use a shorter context"):
        oracle_family(long, VOCABULARY)


def test_a_keep_set_with_a_wrong_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"keep set: expected block numbers in \[0, 1\), got \[4\]"):
        answered(example("WRITE f0 m0 v0", query="QUERY f0 m0"), {0, 4})

"""Spans, keep sets and examples refuse what does not fit together."""

import pytest
import torch

from keepset.blocks import Example, Family, Span, check_keep_set
from keepset.paper.testbed.tasks import Vocabulary, sample_condition

TOKENS = torch.arange(10)
BLOCKS = (Span(0, 3), Span(4, 7))
QUERY = Span(7, 10)


def make(
    blocks: tuple[Span, ...] = BLOCKS,
    query: Span = QUERY,
    answer: tuple[int, ...] = (1,),
    family: Family | None = None,
) -> Example:
    return Example(TOKENS, blocks, query, answer, family)


def test_evidence_is_the_union_of_the_family() -> None:
    assert make(family=frozenset({frozenset({0}), frozenset({1})})).evidence == {0, 1}
    with pytest.raises(ValueError, match="no annotated family"):
        _ = make().evidence


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            (Span(0, 4), Span(3, 7)),
            r"block 1: expected to start at 4 or later \(blocks in order, disjoint\), got \[3, 7\)",
        ),
        ((Span(4, 7), Span(0, 3)), r"block 1: expected to start at 7 or later"),
        ((Span(2, 2),), r"block 0: expected a non-empty span, got \[2, 2\)"),
        ((Span(3, 1),), r"block 0: expected a non-empty span, got \[3, 1\)"),
        ((Span(-1, 3),), r"block 0: expected a non-empty span"),
        ((Span(0, 3), Span(6, 8)), r"query: expected to start after the last block \(8\), got 7"),
        ((Span(0, 3), Span(9, 12)), r"query: expected to start after the last block \(12\), got 7"),
    ],
)
def test_blocks_that_overlap_or_leave_the_context_are_refused(blocks: tuple[Span, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(blocks=blocks)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Span(7, 7), r"query: expected a non-empty span, got \[7, 7\)"),
        (Span(7, 5), r"query: expected a non-empty span, got \[7, 5\)"),
        (Span(7, 9), "query: expected to end the 10 tokens, got stop 9"),
        (Span(7, 11), "query: expected to end the 10 tokens, got stop 11"),
    ],
)
def test_a_query_that_does_not_end_the_tokens_is_refused(query: Span, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(query=query)


def test_an_empty_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="answer: expected at least one token, got none"):
        make(answer=())


@pytest.mark.parametrize("keep", [{2}, {-1, 0}, {0, 1, 2}])
def test_a_keep_set_with_a_wrong_block_number_is_refused(keep: set[int]) -> None:
    wrong = sorted(keep - {0, 1})
    message = rf"keep set: expected block numbers in \[0, 2\), got \[{wrong[0]}\]"
    with pytest.raises(ValueError, match=message):
        check_keep_set(frozenset(keep), 2)
    with pytest.raises(ValueError, match=message):
        make(family=frozenset({frozenset(keep)}))


def test_a_batch_gives_back_its_examples() -> None:
    batch = sample_condition("duplicate", 3, 4, 8, 5, Vocabulary(families=4, members=4, values=4), n_queries=3)
    for i in range(4):
        example = batch.example(i)
        assert torch.equal(example.tokens, batch.first_query()[i])
        assert example.blocks == batch.blocks
        assert example.query == Span(40, 43)
        assert example.answer == (int(batch.answers[i, 0]),)
        assert sorted(map(sorted, example.family or ())) == sorted(
            torch.nonzero(row).flatten().tolist() for row in batch.family[i]
        )

"""What the model reads under each operator."""

import pytest
import torch

from keepset.blocks import Example, Span
from keepset.interventions import Mask, Overwrite, filler

EXAMPLE = Example(torch.arange(10, 18), (Span(1, 3), Span(3, 4), Span(5, 7)), Span(7, 8), (9,))


def test_mask_leaves_the_tokens_and_names_the_visible_blocks() -> None:
    (view,) = Mask().views(EXAMPLE, frozenset({2, 0}))
    assert view.tokens is EXAMPLE.tokens
    assert view.string == ((0, 0), (2, 0))


def test_overwrite_replaces_what_is_not_kept() -> None:
    (view,) = Overwrite(filler(0)).views(EXAMPLE, frozenset({1}))
    assert view.tokens.tolist() == [10, 0, 0, 13, 14, 0, 0, 17]
    assert view.string == ((0, 1), (1, 0), (2, 1))
    assert EXAMPLE.tokens.tolist() == list(range(10, 18))


def test_overwrite_with_alternatives_gives_one_view_each() -> None:
    alternatives = [[[1, 2], [3], [4, 5]], [[6, 7], [8], [9, 0]]]
    views = Overwrite(lambda example: alternatives).views(EXAMPLE, frozenset({0}))
    assert [view.tokens.tolist() for view in views] == [[10, 11, 12, 3, 14, 4, 5, 17], [10, 11, 12, 8, 14, 9, 0, 17]]
    assert [view.string for view in views] == [((0, 0), (1, 1), (2, 1)), ((0, 0), (1, 2), (2, 2))]


def test_overwrite_that_replaces_nothing_is_one_view() -> None:
    views = Overwrite(lambda e: [*filler(1)(e), *filler(2)(e)]).views(EXAMPLE, frozenset({0, 1, 2}))
    assert [view.tokens.tolist() for view in views] == [EXAMPLE.tokens.tolist()]


@pytest.mark.parametrize("operator", [Mask(), Overwrite(filler(0))])
def test_a_block_that_does_not_exist_is_refused(operator: Mask) -> None:
    with pytest.raises(ValueError, match=r"keep set: expected block numbers in \[0, 3\), got \[3\]"):
        operator.views(EXAMPLE, frozenset({3}))


@pytest.mark.parametrize("replacement", [[[1], [3], [4, 5]], [[1, 2], [3]]])
def test_a_replacement_of_another_length_is_refused(replacement: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="as long as the block"):
        Overwrite(lambda example: [replacement]).views(EXAMPLE, frozenset())


def test_no_replacement_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one replacement"):
        Overwrite(lambda example: []).views(EXAMPLE, frozenset())

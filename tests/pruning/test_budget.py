"""What a budget buys: exact shares, ties, protection, and refusals."""

import pytest
import torch

from keepset.pruning.budget import Budget, protected_blocks, select

TEN = [16] * 10
NOTHING: frozenset[int] = frozenset()


def test_bare_numbers() -> None:
    assert Budget.of(0.25) == Budget.share_of_blocks(0.25)
    assert Budget.of(3) == Budget.blocks(3)
    assert Budget.of(1) == Budget.blocks(1)
    assert Budget.of(1.0) == Budget.share_of_blocks(1.0)
    assert Budget.of(Budget.share_of_tokens(0.5)).unit == "share of tokens"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", Budget.share_of_blocks(0.1)),
        ("12", Budget.blocks(12)),
        (" 12 ", Budget.blocks(12)),
        ("0.25 tokens", Budget.share_of_tokens(0.25)),
        ("500 tokens", Budget.tokens(500)),
    ],
)
def test_a_command_writes_it_as_text(text: str, expected: Budget) -> None:
    assert Budget.parse(text) == expected
    assert Budget.model_validate_json(expected.model_dump_json()) == expected


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, float("nan"), 0, -2, True, "0.1"])
def test_what_is_no_budget_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="budget: expected"):
        Budget.of(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["", "ten", "0", "1.1", "0 tokens", "1.5 tokens", "0.1 pages"])
def test_what_is_no_budget_in_text_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="budget: expected"):
        Budget.parse(wrong)


@pytest.mark.parametrize("n_blocks", [1, 7, 10, 16, 100, 256])
def test_a_share_of_the_blocks_is_rounded_up(n_blocks: int) -> None:
    for percent in range(1, 101):
        assert Budget.of(percent / 100).limit([1] * n_blocks) == -(-percent * n_blocks // 100)


def test_a_share_of_the_tokens_is_never_exceeded() -> None:
    assert Budget.share_of_tokens(0.25).limit([10, 30]) == 10
    assert Budget.share_of_tokens(0.25).limit([10, 33]) == 10
    assert Budget.share_of_tokens(0.29).limit([1] * 100) == 29
    assert Budget.share_of_tokens(0.01).limit([1] * 10) == 1


def test_more_blocks_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="budget: expected at most the document's 10 blocks, got 11"):
        Budget.of(11).limit(TEN)


def test_the_best_are_kept_and_ties_go_to_the_earlier() -> None:
    scores = torch.tensor([0.0, 2.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0])
    assert select(scores, TEN, Budget.of(2), NOTHING) == {1, 3}
    assert select(scores, TEN, Budget.of(0.4), NOTHING) == {0, 1, 2, 3}


def test_protected_blocks_count_against_the_budget() -> None:
    assert protected_blocks(TEN, Budget.of(5), True, 2) == {0, 8, 9}
    assert protected_blocks(TEN, Budget.of(5), False, 0) == NOTHING
    assert protected_blocks([16] * 2, Budget.of(1.0), True, 5) == {0, 1}
    assert select(torch.arange(10.0), TEN, Budget.of(4), frozenset({0, 1})) == {0, 1, 8, 9}
    with pytest.raises(ValueError, match="keep_recent: expected"):
        protected_blocks(TEN, Budget.of(5), True, -1)


@pytest.mark.parametrize("budget", [0.1, 1, Budget.share_of_tokens(0.1)])
def test_a_budget_of_one_block_is_the_policys(budget: Budget | float | int) -> None:
    assert protected_blocks(TEN, Budget.of(budget), True, 0) == NOTHING
    with pytest.raises(ValueError, match="budget: expected room for a block beside the 1 recent ones"):
        protected_blocks(TEN, Budget.of(budget), True, 1)


def test_a_share_of_tokens_that_holds_no_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"budget: expected room for a block beside the 0 recent ones .* 8 tokens"):
        protected_blocks(TEN, Budget.share_of_tokens(0.05), True, 0)


def test_everything_may_be_kept() -> None:
    assert len(select(torch.zeros(10), TEN, Budget.of(1.0), frozenset({0}))) == 10


def test_under_a_share_of_tokens_what_does_not_fit_is_passed_over() -> None:
    scores = torch.tensor([1.0, 4.0, 3.0, 2.0])
    assert select(scores, [10, 30, 50, 10], Budget.share_of_tokens(0.5), NOTHING) == {0, 1, 3}


def test_one_block_is_kept_whole() -> None:
    for budget in (0.1, 1, Budget.share_of_tokens(0.1)):
        assert protected_blocks([50], Budget.of(budget), False, 0) == {0}

"""The adaptive set is the smallest that covers its share."""

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keepset.readouts import adaptive_set


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.2], [True]),  # one block
        ([0.0, 0.7, 0.0], [False, True, False]),  # all mass on one
        ([0.9, 0.1], [True, False]),  # 90 % exactly
        ([0.5, 0.4, 0.1], [True, True, False]),  # 90 % in two steps
        ([0.1, 0.4, 0.5], [False, True, True]),
        ([0.7, 0.1, 0.1, 0.1], [True, True, True, False]),  # of equal blocks the earlier
        ([0.25, 0.25, 0.25, 0.25], [True, True, True, True]),
        ([0.0, 0.0], [False, False]),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 40.0])
def test_by_hand(scores: list[float], expected: list[bool], scale: float) -> None:
    assert adaptive_set(torch.tensor([scores]) * scale).tolist() == [expected]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.sampled_from([0.25, 0.5, 0.9, 1.0]))
def test_no_smaller_set_covers_as_much(scores: list[int], mass: float) -> None:
    kept = adaptive_set(torch.tensor([scores], dtype=torch.float32), mass)[0].tolist()
    chosen = [score for score, keep in zip(scores, kept, strict=True) if keep]
    needed = mass * sum(scores) - 1e-9
    assert sum(chosen) >= needed
    assert not chosen or all(sum(fewer) < needed for fewer in combinations(scores, len(chosen) - 1))


def test_rows_do_not_touch_each_other() -> None:
    scores = torch.tensor([[0.9, 0.05, 0.05], [0.3, 0.3, 0.4]])
    assert adaptive_set(scores).tolist() == [[True, False, False], [True, True, True]]


@pytest.mark.parametrize(
    ("scores", "mass", "message"),
    [
        (torch.ones(3), 0.9, r"scores: expected \(B, N\) with at least one block, got shape \(3,\)"),
        (torch.ones(2, 0), 0.9, "at least one block"),
        (torch.tensor([[-0.1, 1.0]]), 0.9, "scores: expected finite, non-negative"),
        (torch.tensor([[float("nan"), 1.0]]), 0.9, "scores: expected finite, non-negative"),
        (torch.ones(1, 2), 0.0, r"mass: expected a share in \(0, 1\], got 0.0"),
        (torch.ones(1, 2), 90, r"mass: expected a share in \(0, 1\], got 90"),
    ],
)
def test_bad_input_is_refused(scores: torch.Tensor, mass: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adaptive_set(scores, mass)

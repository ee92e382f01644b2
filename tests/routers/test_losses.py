"""Losses against values worked out by hand, and at their limits."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from keepset.routers.losses import KL, Coverage, Loss, SparseKL, set_losses, smooth_minimum
from keepset.routers.targets import acceptable_sets, as_distribution, uniform_over_sets


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(7, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)


@pytest.fixture
def distribution() -> Tensor:
    return torch.rand(7, 6, generator=torch.Generator().manual_seed(1)).softmax(-1)


def bools(*rows: str) -> Tensor:
    """``bools("x..", ".x.")`` is a (2, 3) tensor."""
    return torch.tensor([[letter == "x" for letter in row] for row in rows])


def test_kl_by_hand() -> None:
    scores = torch.tensor([[math.log(3.0), 0.0]])  # softmax is (3/4, 1/4)
    loss = KL()(scores, torch.tensor([[0.5, 0.5]]), 0.0)
    assert loss.item() == pytest.approx(0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25))
    assert KL()(scores, torch.tensor([[0.75, 0.25]]), 0.0).item() == pytest.approx(0.0, abs=1e-6)
    assert KL()(scores, torch.tensor([[1.0, 0.0]]), 0.0).item() == pytest.approx(math.log(4 / 3))


def test_sparse_kl_by_hand() -> None:
    scores = torch.tensor([[math.log(3.0), -5.0, 0.0]])  # the top 2 are blocks 0 and 2: (3/4, 1/4) between them
    loss = SparseKL(2)(scores, torch.tensor([[0.2, 0.6, 0.2]]), 0.0)  # the target there: (1/2, 1/2)
    assert loss.item() == pytest.approx(0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25))


def test_sparse_kl_over_all_blocks_is_kl(scores: Tensor, distribution: Tensor) -> None:
    torch.testing.assert_close(SparseKL(6)(scores, distribution, 0.0), KL()(scores, distribution, 0.0))


def test_sparse_kl_without_mass_inside_weighs_nothing() -> None:
    scores = torch.tensor([[5.0, 4.0, 0.0]], requires_grad=True)
    loss = SparseKL(2)(scores, torch.tensor([[0.0, 0.0, 1.0]]), 0.0)
    loss.sum().backward()
    assert loss.item() == 0.0
    assert scores.grad is not None
    assert scores.grad.abs().max() == 0.0


@pytest.mark.parametrize("k", [0, 7])
def test_sparse_kl_refuses_a_k_outside_the_blocks(scores: Tensor, distribution: Tensor, k: int) -> None:
    with pytest.raises(ValueError, match=f"expected k in 1 to 6 blocks, got {k}"):
        SparseKL(k)(scores, distribution, 0.0)


@pytest.mark.parametrize("progress", [0.0, 0.3, 0.9])
def test_coverage_of_one_set_is_binary_cross_entropy(scores: Tensor, progress: float) -> None:
    label = torch.rand(7, 6, generator=torch.Generator().manual_seed(2)) < 0.4
    label[:, 0] = True
    expected = binary_cross_entropy_with_logits(scores, label.float(), reduction="none").mean(-1)
    torch.testing.assert_close(Coverage()(scores, label.unsqueeze(1), progress), expected)


def test_coverage_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(3.0)]])  # probabilities 1/2 and 3/4
    family = bools("x.", ".x").unsqueeze(0)
    first = (math.log(2) + math.log(4)) / 2
    second = (math.log(2) + math.log(4 / 3)) / 2
    torch.testing.assert_close(set_losses(scores, family), torch.tensor([[first, second]]))
    assert Coverage()(scores, family, 0.8).item() == pytest.approx(second)
    half_way = -0.5 * math.log(math.exp(-first / 0.5) + math.exp(-second / 0.5))
    assert Coverage()(scores, family, 0.4).item() == pytest.approx(half_way)


def test_the_smooth_minimum_tends_to_the_minimum() -> None:
    losses = torch.tensor([[0.7, 0.2, 0.9]])
    gaps = [0.2 - smooth_minimum(losses, temperature).item() for temperature in (1.0, 0.1, 0.01, 0.0)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1
    assert gaps[2] == pytest.approx(0.0, abs=1e-6)
    assert gaps[3] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("progress", [0.0, 0.5, 0.8, 0.99])
def test_padded_sets_change_nothing(scores: Tensor, progress: float) -> None:
    family = torch.zeros(7, 3, 6, dtype=torch.bool)
    family[:, 0, 1], family[:, 1, 2] = True, True
    torch.testing.assert_close(
        Coverage()(scores, family, progress), Coverage()(scores, family[:, :2], progress), rtol=0, atol=0
    )


@pytest.mark.parametrize("loss", [KL(), SparseKL(2), Coverage()])
@pytest.mark.parametrize("progress", [0.0, 0.9])
def test_an_example_without_a_label_weighs_nothing(scores: Tensor, loss: Loss, progress: float) -> None:
    family = torch.zeros(7, 2, 6, dtype=torch.bool)
    family[1:, 0, 3] = True
    target = family if isinstance(loss, Coverage) else uniform_over_sets(family)
    value = loss(scores, target, progress)
    value.sum().backward()
    assert scores.grad is not None
    assert value[0] == 0.0
    assert scores.grad[0].abs().max() == 0.0
    assert bool(torch.isfinite(scores.grad).all())
    assert scores.grad[1:].abs().max() > 0.0


@pytest.mark.parametrize("loss", [KL(), SparseKL(2), Coverage()])
def test_routers_side_by_side_get_the_loss_each_gets_alone(distribution: Tensor, loss: Loss) -> None:
    stacked = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(3))
    target = acceptable_sets(distribution > distribution.mean()) if isinstance(loss, Coverage) else distribution
    alone = torch.stack([loss(one, target, 0.2) for one in stacked])
    torch.testing.assert_close(loss(stacked, target, 0.2), alone)


def test_a_family_as_a_distribution() -> None:
    family = torch.stack([bools("xx..", "..x."), bools("x...", "...."), bools("....", "....")])
    torch.testing.assert_close(
        uniform_over_sets(family), torch.tensor([[0.25, 0.25, 0.5, 0], [1.0, 0, 0, 0], [0.0, 0, 0, 0]])
    )


def test_a_label_is_one_set_or_alternatives() -> None:
    label = bools("x.x.", ".xx.", "....")
    torch.testing.assert_close(acceptable_sets(label), label.unsqueeze(1))
    mixed = acceptable_sets(label, torch.tensor([True, False, True]))
    torch.testing.assert_close(
        mixed, torch.stack([bools("x...", "..x."), bools(".xx.", "...."), bools("....", "....")])
    )
    torch.testing.assert_close(acceptable_sets(label, torch.tensor([False, False, False])), label.unsqueeze(1))


@pytest.mark.parametrize("wrong", [-0.5, math.nan, math.inf])
def test_weights_that_are_no_weights_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="expected finite scores of at least 0"):
        as_distribution(torch.tensor([[1.0, wrong]]))

"""Muon: orthogonal directions of the right size, and steps that go down."""

import pytest
import torch
from torch.nn import Parameter

from keepset.paper.testbed.teachers.muon import Muon, orthogonalise

SHAPES = [(8, 8), (8, 24), (24, 8)]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_orthogonalise_brings_singular_values_near_one(scale: float) -> None:
    found = torch.linalg.svdvals(orthogonalise(scale * random(5, 8, 24)))
    assert found.shape == (5, 8)
    # The iteration trades exactness for speed: it ends inside this band, not at 1.
    assert 0.6 < float(found.min()) <= float(found.max()) < 1.3


def test_orthogonalise_keeps_the_singular_directions() -> None:
    matrix = random(1, 8, 24)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inside = u.mT @ orthogonalise(matrix) @ v.mT  # (1, 8, 8) diagonal when the directions are the same
    assert torch.allclose(inside, torch.diag_embed(inside.diagonal(dim1=1, dim2=2)), atol=1e-4)


def test_matrices_go_through_together_as_they_would_alone() -> None:
    matrices = random(3, 8, 24)
    alone = torch.cat([orthogonalise(matrix[None]) for matrix in matrices])
    assert torch.allclose(orthogonalise(matrices), alone, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_bring_a_matrix_to_its_target(shape: tuple[int, int]) -> None:
    weight, target = Parameter(torch.zeros(shape)), random(*shape)
    optimizer = Muon([weight], lr=0.1, weight_decay=0.0)
    losses = []
    for _ in range(60):
        loss = (weight - target).square().mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[1] < losses[0]
    assert losses[-1] < 0.1 * losses[0]


def test_steps_agree_with_the_muon_of_torch() -> None:
    """Up to the bfloat16 in which torch iterates; shapes that share a stack and shapes that do not."""
    start = [random(*shape, seed=i) for i, shape in enumerate([*SHAPES, (8, 24)])]
    ours, theirs = ([Parameter(matrix.clone()) for matrix in start] for _ in range(2))
    optimizers = Muon(ours, lr=0.02, weight_decay=0.1), torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1)
    for step in range(3):
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            mine.grad = random(*mine.shape, seed=100 * step + i)
            other.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for mine, other, before in zip(ours, theirs, start, strict=True):
        assert torch.linalg.norm(mine - other) < 0.03 * torch.linalg.norm(mine - before)


def test_weight_decay_shrinks_what_has_no_gradient() -> None:
    weight = Parameter(torch.ones(4, 4))
    weight.grad = torch.zeros(4, 4)
    Muon([weight], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(weight, torch.full((4, 4), 0.95))

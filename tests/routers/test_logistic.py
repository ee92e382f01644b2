"""Penalised logistic regression: it ends where nothing pulls any more, and rows that count twice are two rows."""

import torch
from torch import Tensor, nn

from keepset.routers.logistic import fit_logistic

ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
WANTED = (ROWS[:, 0] + 0.5 * torch.randn(40, generator=torch.Generator().manual_seed(1))) > 0


def fitted(rows: Tensor, wanted: Tensor, penalty: float, counts: Tensor | None = None) -> nn.Linear:
    linear = nn.Linear(rows.shape[1], 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    fit_logistic(lambda: linear(rows).squeeze(-1), wanted, {linear.weight: penalty}, [linear.bias], counts)
    return linear


@torch.no_grad()
def test_nothing_pulls_at_the_end() -> None:
    linear = fitted(ROWS, WANTED, 2.0)
    wrong = torch.sigmoid(linear(ROWS).squeeze(-1)) - WANTED.float()
    torch.testing.assert_close(wrong @ ROWS + 2.0 * linear.weight[0], torch.zeros(3), rtol=0, atol=1e-3)
    torch.testing.assert_close(wrong.sum(), torch.tensor(0.0), rtol=0, atol=1e-3)


@torch.no_grad()
def test_a_row_that_counts_twice_is_two_rows() -> None:
    twice = torch.ones(40)
    twice[:10] = 2.0
    counted = fitted(ROWS, WANTED, 1.0, twice)
    repeated = fitted(torch.cat([ROWS, ROWS[:10]]), torch.cat([WANTED, WANTED[:10]]), 1.0)
    torch.testing.assert_close(counted.weight, repeated.weight, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_higher_penalty_holds_weights_back() -> None:
    lengths = [float(fitted(ROWS, WANTED, penalty).weight.norm()) for penalty in (0.1, 1.0, 10.0)]
    assert lengths == sorted(lengths, reverse=True)

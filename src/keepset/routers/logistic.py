"""Logistic regression with a penalty: few blocks are ever asked about, so weights have to be held back."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

STEPS = 60
"""Of L-BFGS, each over all rows; a convex loss needs no more."""


def fit_logistic(
    odds: Callable[[], Tensor],
    wanted: Tensor,
    penalties: Mapping[Tensor, float],
    free: Sequence[Tensor] = (),
    counts: Tensor | None = None,
) -> None:
    """Moves the parameters behind ``odds`` (N,) to the least loss on ``wanted`` (N,), added up over rows.

    A parameter costs half its squared length times its penalty; ``free`` ones cost nothing. ``counts`` (N,) is how
    often each row counts; once without it.
    """
    optimizer = torch.optim.LBFGS([*penalties, *free], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = binary_cross_entropy_with_logits(odds(), wanted.float(), weight=counts, reduction="sum")
        for parameter, penalty in penalties.items():
            total = total + penalty / 2 * parameter.square().sum()
        total.backward()
        return total

    optimizer.step(loss)

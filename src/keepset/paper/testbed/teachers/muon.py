"""Muon: momentum, orthogonalised by a Newton-Schulz iteration, for the matrices of a model.

``torch.optim.Muon`` iterates in bfloat16, one matrix at a time: on a CPU without bfloat16
instructions that is most of the optimizer's time. Here matrices of one shape go through the
iteration together, in their own precision.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the iteration: large slope at zero, singular values end near 1 (Jordan et al. 2024)."""
ITERATIONS = 5


def orthogonalise(matrices: Tensor) -> Tensor:
    """(M, R, C) with R <= C: roughly the nearest matrices with orthonormal rows."""
    a, b, c = QUINTIC
    x: Tensor = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum 0.95 and decoupled weight decay; every parameter must be a matrix."""

    def __init__(self, params: Iterable[Parameter], lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                by_shape[tuple(parameter.shape)].append(parameter)
            for (rows, columns), parameters in by_shape.items():
                updates = torch.stack([self._momentum(p, group["momentum"]) for p in parameters])
                wide = updates if rows <= columns else updates.mT
                directions = orthogonalise(wide)
                if rows > columns:
                    directions = directions.mT
                step_size = group["lr"] * max(1.0, rows / columns) ** 0.5
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(direction, alpha=-step_size)

    def _momentum(self, parameter: Parameter, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)

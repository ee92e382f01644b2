"""The one training loop of all routers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from keepset.routers.losses import Loss
from keepset.routers.streams import Stream

R = TypeVar("R", bound=nn.Module)

STEPS = 4_000
LEARNING_RATE = 1e-3
"""The paper's (appendix C), for every router and every loss."""


def train_routers(
    build: Callable[[int], R],
    seeds: Sequence[int],
    losses: Mapping[str, Loss],
    stream: Stream,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
) -> dict[str, list[R]]:
    """Arm -> one trained router per seed. All arms and seeds train side by side on the same batches.

    ``build(seed)`` makes a fresh router, all with the same buffers; an arm is a name in ``losses`` and in the targets
    of ``stream``. The routers are stacked into one batched model. None has a part in another's loss and Adam works on
    each number alone, so every router comes out as if it had been trained by itself: exactly up to rounding, which
    Adam makes visible in float32 where a gradient is zero by construction (KL does not see a constant added to all
    scores).
    """
    if not seeds or not losses:
        raise ValueError(f"routers: expected at least one seed and one arm, got {len(seeds)} and {len(losses)}")
    routers = [build(seed) for _ in losses for seed in seeds]
    parameters, _ = stack_module_state(routers)  # name -> (A * R, ...), arms first
    optimizer = torch.optim.Adam(parameters.values(), lr=learning_rate, fused=True)
    blank = routers[0]
    device = next(blank.parameters()).device

    def score(parameters: dict[str, Tensor], tokens: Tensor) -> Tensor:
        scores: Tensor = functional_call(blank, parameters, (tokens,))
        return scores

    score_all = vmap(score, in_dims=(0, None))
    for step in range(steps):
        tokens, targets = stream(step)
        scores = score_all(parameters, tokens.to(device)).unflatten(0, (len(losses), len(seeds)))  # (A, R, B, N)
        total = torch.zeros((), device=device)
        for arm, (name, loss) in zip(scores, losses.items(), strict=True):
            total = total + loss(arm, targets[name].to(device), step / steps).mean(-1).sum()
        if not torch.isfinite(total):
            raise ValueError(f"step {step}: expected a finite loss, got {total.item()}; lower the learning rate")
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    for i, router in enumerate(routers):
        router.load_state_dict(router.state_dict() | {name: stacked[i] for name, stacked in parameters.items()})
        router.eval()
    return {name: routers[a * len(seeds) : (a + 1) * len(seeds)] for a, name in enumerate(losses)}

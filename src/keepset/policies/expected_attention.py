"""Expected Attention: the blocks that the queries still to come are expected to look at."""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from keepset.policies.policy import PRE_QUERY, Context
from keepset.readouts.layers import Layer, block_sums, check_inputs, visit_layers

FUTURE = 512
"""Positions after the context over which a query may stand."""
SINKS = 4
"""First tokens, which every query looks at: left out of the statistics, kept first."""


class ExpectedAttention:
    """Attention expected from queries after the context times the norm of the value, summed over a block.

    As its authors compute it: in every head the queries of the context, before their rotation, have a mean m and a
    covariance C; both are rotated to the mean of the next ``FUTURE`` positions. A query drawn from them gives a key k
    the weight exp(s k.m + s^2 k.C k / 2), s being the scale of the attention; weights are normalised over the context.
    Mean over heads and layers, because one selection serves them all.
    """

    name = "expected_attention"
    title = "Expected Attention"
    regimes = PRE_QUERY

    def score(self, context: Context) -> Tensor:
        tokens, length = context.batch, len(context.tokens)
        check_inputs(context.model, tokens, context.blocks)
        turns = rotation(context.model)
        layers: list[Tensor] = []

        def read(layer: Layer) -> None:
            layers.append(block_sums(expected(layer, turns, length), context.blocks).mean(0).cpu())

        visit_layers(context.model, tokens, read)
        return torch.stack(layers).mean(0)


def expected(layer: Layer, turns: Tensor, length: int) -> Tensor:
    """(H, T) of every token in every query head; ``turns`` is (D / 2,), the angle of a step in each plane."""
    first = min(SINKS, length - 1)
    at = torch.arange(length, device=layer.query.device)
    query = layer.query[0, :, first:length].float()  # (H, T, D)
    still = turned(query, -at[first:, None] * turns)
    mean = still.mean(1)  # (H, D)
    centred = still - mean[:, None]
    covariance = centred.mT @ centred / centred.shape[1]  # (H, D, D)
    ahead = (length + torch.arange(FUTURE, device=at.device))[:, None] * turns  # (FUTURE, D / 2)
    average = torch.eye(query.shape[-1], device=at.device)
    average = turned(average[:, None].expand(-1, FUTURE, -1), ahead).mean(1)  # (D, D): row i is where axis i goes
    mean, covariance = mean @ average, average.mT @ covariance @ average
    group = len(query) // layer.key.shape[1]
    keys = layer.key[0, :, first:length].float().repeat_interleave(group, dim=0)  # (H, T, D)
    exponent = layer.scale * (keys @ mean[..., None])[..., 0]
    exponent += layer.scale**2 / 2 * ((keys @ covariance) * keys).sum(-1)
    norms = layer.value[0, :, first:length].float().norm(dim=-1).repeat_interleave(group, dim=0)
    scores: Tensor = exponent.softmax(-1) * norms
    return torch.cat([scores.amax(-1, keepdim=True).expand(-1, first), scores], dim=-1)


def turned(vectors: Tensor, angles: Tensor) -> Tensor:
    """(..., T, D) vectors, each turned by its (T, D / 2) angles; a plane is component i and component i + D / 2."""
    one, other = vectors.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([one * cosine - other * sine, other * cosine + one * sine], dim=-1)


def rotation(model: PreTrainedModel) -> Tensor:
    """(D / 2,) the angle of one step in each plane of a head; refuses models that rotate in another way."""
    found = [freq for module in model.modules() if isinstance(freq := getattr(module, "inv_freq", None), Tensor)]
    halves: Any = next((_rotate_half(module) for module in model.modules() if _rotate_half(module)), None)
    steps = torch.arange(4.0)
    usual = halves is not None and torch.equal(halves(steps), torch.tensor([-2.0, -3.0, 0.0, 1.0]))
    if len(found) != 1 or not usual:
        raise ValueError(
            f"expected_attention: expected a model with one rotary embedding that turns the halves of a head against "
            f"each other (Llama, Qwen, Mistral), got {type(model).__name__}; take another policy"
        )
    return found[0].float()


def _rotate_half(module: nn.Module) -> Any:
    """The function of that name in the file of an architecture."""
    return getattr(sys.modules[type(module).__module__], "rotate_half", None)

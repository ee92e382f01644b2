"""What routers learn from: examples of a mixture with the labels of one teacher, computed once for every arm."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.routers import example_batch, router_input
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.readouts import answer_attention, pool_attention, shared_layers
from keepset.readouts.attention import Heads
from keepset.routers.targets import as_distribution

CHUNK = 256
"""Examples labelled together."""

Label = Callable[[PreTrainedModel, ExampleBatch], Tensor]
"""A teacher and a batch -> a target, (B, N) or (B, S, N)."""


@dataclass(frozen=True)
class RouterTable:
    """Tokens a router may see, and one target per arm."""

    tokens: Tensor
    """(M, T)"""
    targets: dict[str, Tensor]


def label_table(
    model: PreTrainedModel, config: TeacherConfig, mixture: dict[str, float], n: int, labels: dict[str, Label]
) -> RouterTable:
    """``n`` fresh examples, the same for every teacher of a config, labelled by ``model``."""
    return make_table(config, mixture, n, lambda batch: {arm: label(model, batch) for arm, label in labels.items()})


def make_table(
    config: TeacherConfig, mixture: dict[str, float], n: int, label: Callable[[ExampleBatch], dict[str, Tensor]]
) -> RouterTable:
    """``n`` fresh examples; ``label`` gives the targets of all arms together, for arms that share their forwards."""
    tokens: list[Tensor] = []
    targets: list[dict[str, Tensor]] = []
    for step in range(-(-n // CHUNK)):
        size = min(CHUNK, n - step * CHUNK)
        batch = example_batch(mixture, step, 0, size, config.n_blocks, config.block_width, config.vocabulary)
        tokens.append(router_input(batch).to(torch.int16))
        with shared_layers():
            targets.append(label(batch))
    return RouterTable(torch.cat(tokens), {arm: joined([part[arm] for part in targets]) for arm in targets[0]})


def joined(parts: list[Tensor]) -> Tensor:
    """Chunks one after another; families padded to the most sets of any."""
    if parts[0].ndim == 3:
        most = max(part.shape[1] for part in parts)
        parts = [torch.nn.functional.pad(part, (0, 0, 0, most - part.shape[1])) for part in parts]
    return torch.cat(parts)


def annotated_family(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, S, N) bool: the causal target of the constructed tasks."""
    return batch.family


def block_attention(model: PreTrainedModel, batch: ExampleBatch, heads: Heads = "mean") -> Tensor:
    """(B, N) the imitation target: answer-position attention over blocks, mean over layers."""
    attention = answer_attention(model, batch.first_query(), batch.blocks)
    return as_distribution(pool_attention(attention, heads=heads))

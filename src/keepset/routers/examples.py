"""What a router learns from: one document, alone or with its question, as features and targets.

    examples = [RouterExample(tokens, blocks, evidence)]                       # pre_query: evidence of every question
    features, targets = read_examples(model, examples, ("causal", "imitation"))
    train_block_routers(..., features, targets)

Labels and documents whose evidence is known by construction become examples; from here on they are the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts import all_position_attention
from keepset.routers.block import Target
from keepset.routers.features import block_features
from keepset.routers.targets import as_distribution


@dataclass(frozen=True, eq=False)
class RouterExample:
    """A document, and what a router is to say about it."""

    tokens: Tensor
    """(T,) everything before the question."""
    blocks: tuple[Span, ...]
    evidence: Tensor
    """(S, N) bool: acceptable sets of blocks, any one of which is enough."""
    question: Tensor | None = None
    """(Q,) for routers that read it (``query_aware``)."""
    attention: Tensor | None = None
    """(N,) where it has been measured; without it, what every token pays to the block, the question's among them."""


def read_examples(
    model: PreTrainedModel,
    examples: Iterable[RouterExample],
    targets: Sequence[Target],
    layers: int | None = None,
    each_example: Callable[[], None] = lambda: None,
) -> tuple[list[Tensor], dict[Target, list[Tensor]]]:
    """What routers read of each example with ``layers`` layers, and what each of ``targets`` is to learn from it."""
    features: list[Tensor] = []
    learned: dict[Target, list[Tensor]] = {target: [] for target in targets}
    for example in examples:
        question = None if example.question is None else example.question[None]
        features.append(block_features(model, example.tokens[None], example.blocks, question, layers)[0].cpu())
        for target in targets:
            learned[target].append(example.evidence if target == "causal" else _attention(model, example))
        each_example()
    return features, learned


def _attention(model: PreTrainedModel, example: RouterExample) -> Tensor:
    """(N,) a distribution."""
    if example.attention is not None:
        return as_distribution(example.attention)
    read = example.tokens if example.question is None else torch.cat([example.tokens, example.question])
    return as_distribution(all_position_attention(model, read[None], example.blocks)[0])

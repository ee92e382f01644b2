"""Scores of records read from one clean forward, and the records that a budget keeps of them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import Example, KeepSet
from keepset.labels import keep_sets, top_k
from keepset.paper.pretrained.settings import RUN
from keepset.paper.routed import random_scores
from keepset.readouts import (
    all_position_attention,
    answer_attention,
    attention_rollout,
    backward_trace,
    pool_attention,
    shared_layers,
    window_attention,
)

ATTENTION, TRACE, ROLLOUT, ACCUMULATED, WINDOW = "attention", "trace", "rollout", "accumulated", "window"
SINK: KeepSet = frozenset({0})
"""Record 0, which is where the attention of the first tokens goes."""
NOBODY: KeepSet = frozenset()


def _attention(model: PreTrainedModel, example: Example) -> Tensor:
    return pool_attention(answer_attention(model, example.tokens[None], example.blocks), heads="mean")


def _window(model: PreTrainedModel, example: Example) -> Tensor:
    received = window_attention(model, example.tokens[None], example.blocks, example.query)
    return pool_attention(received, heads="mean")


READINGS: dict[str, Callable[[PreTrainedModel, Example], Tensor]] = {
    ATTENTION: _attention,
    TRACE: lambda model, example: backward_trace(model, example.tokens[None], example.blocks),
    ROLLOUT: lambda model, example: attention_rollout(model, example.tokens[None], example.blocks),
    ACCUMULATED: lambda model, example: all_position_attention(model, example.tokens[None], example.blocks),
    WINDOW: _window,
}
"""Name -> (1, N) scores of the records of an example. Attention is the mass a record receives, mean over heads and
layers; from the answer row, from every row, or from the question's."""


def read(model: PreTrainedModel, example: Example, names: Sequence[str]) -> dict[str, Tensor]:
    """Name -> (N,), all from one forward."""
    with shared_layers():
        return {name: READINGS[name](model, example)[0] for name in names}


def best(scores: Tensor, k: int, barred: KeepSet = NOBODY) -> KeepSet:
    """The ``k`` records with the highest of (N,) scores, none of them ``barred``."""
    allowed = torch.ones(1, len(scores), dtype=torch.bool)
    allowed[0, sorted(barred)] = False
    return keep_sets(top_k(scores[None], k, allowed))[0]


def chance(n_records: int, number: int) -> Tensor:
    """(N,) random scores of the example ``number``."""
    return random_scores(1, n_records, seeds.INTERVENTION.seed(RUN, number))[0]

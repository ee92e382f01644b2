"""Synthetic examples for routers to learn from."""

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.paper.testbed.tasks.mixture import DRAWS_PER_STEP, sample_mixture
from keepset.paper.testbed.tasks.vocabulary import MAX_COUNT, SPECIALS, Vocabulary
from keepset.routers.streams import Stream


def example_batch(
    mixture: dict[str, float], step: int, run: int, batch: int, n_blocks: int, width: int, vocabulary: Vocabulary
) -> ExampleBatch:
    """The fresh examples of step ``step``, from the seeds set aside for routers."""
    first_seed = seeds.ROUTER_STREAM.seed(run, step * DRAWS_PER_STEP)
    return sample_mixture(mixture, first_seed, batch, n_blocks, width, vocabulary, n_queries=1)


def renamed_stream(stream: Stream, vocabulary: Vocabulary, run: int) -> Stream:
    """``stream`` with the families, members and values of every example under other names.

    Which blocks matter does not depend on what keys and values are called, so a few expensive labels serve for many
    examples. For tables that are read often.
    """
    sizes = [SPECIALS, vocabulary.families, vocabulary.members, vocabulary.values, MAX_COUNT]
    bounds = list(accumulate(sizes, initial=0))
    renames = (False, True, True, True, False)  # specials and counts keep their names

    def renamed(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        tokens, targets = stream(step)
        generator = torch.Generator().manual_seed(seeds.ROUTER_STREAM.seed(run, step))
        names = [
            start + torch.rand(len(tokens), stop - start, generator=generator).argsort(1)
            if rename
            else torch.arange(start, stop).expand(len(tokens), -1)
            for (start, stop), rename in zip(pairwise(bounds), renames, strict=True)
        ]
        return torch.cat(names, dim=1).gather(1, tokens), targets

    return renamed

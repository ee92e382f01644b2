"""Training batches that mix several conditions."""

import torch

from keepset.blocks import ExampleBatch
from keepset.paper.testbed.tasks.conditions import find_condition, sample_condition
from keepset.paper.testbed.tasks.vocabulary import Vocabulary

DRAWS_PER_STEP = 16
"""Seeds set aside for one step: the conditions of a mixture take one each."""


def shares(mixture: dict[str, float], batch: int) -> dict[str, int]:
    """How many examples of each condition: proportional, whole, adding up to ``batch``."""
    total = sum(mixture.values())
    exact = {name: batch * share / total for name, share in mixture.items()}
    counts = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: batch - sum(counts.values())]:
        counts[name] += 1
    return counts


def sample_mixture(
    mixture: dict[str, float],
    first_seed: int,
    batch: int,
    n_blocks: int,
    width: int,
    vocabulary: Vocabulary,
    n_queries: int,
) -> ExampleBatch:
    """One batch; the conditions must share one context length. ``first_seed`` and the next ones are used."""
    lengths = {find_condition(name).length for name in mixture}
    if len(lengths) > 1 or len(mixture) > DRAWS_PER_STEP:
        raise ValueError(
            f"a mixture holds at most {DRAWS_PER_STEP} conditions of one context length, "
            f"got {len(mixture)} conditions with length factors {sorted(lengths)}"
        )
    parts = [
        sample_condition(name, first_seed + i, count, n_blocks, width, vocabulary, n_queries)
        for i, (name, count) in enumerate(shares(mixture, batch).items())
        if count
    ]
    most_sets = max(part.family.shape[1] for part in parts)
    pad = torch.nn.functional.pad
    return ExampleBatch(
        tokens=torch.cat([part.tokens for part in parts]),
        blocks=parts[0].blocks,
        answer_rows=parts[0].answer_rows,
        answers=torch.cat([part.answers for part in parts]),
        asked=torch.cat([part.asked for part in parts]),
        family=torch.cat([pad(part.family, (0, 0, 0, most_sets - part.family.shape[1])) for part in parts]),
    )

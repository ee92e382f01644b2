"""What hiding did, block by block, beside what the answer attends to."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import KeepSet, Span
from keepset.explain.findings import BlockReport
from keepset.interventions import Effects
from keepset.readouts.attention import window_attention
from keepset.text.example import TextExample


def block_reports(
    example: TextExample, effects: Effects, attention: Tensor, evidence: KeepSet
) -> tuple[BlockReport, ...]:
    """One per block of the one example."""
    columns = (effects.drop[0], effects.hidden.measured[0], effects.flip[0], effects.sufficient[0], attention)
    return tuple(
        BlockReport(
            number=i,
            start=start,
            stop=stop,
            tokens=len(example.blocks[i]),
            drop=drop,
            measured=measured,
            flip=flip,
            sufficient=sufficient,
            attention=mass,
            evidence=i in evidence,
        )
        for i, ((start, stop), drop, measured, flip, sufficient, mass) in enumerate(
            zip(example.places, *(column.tolist() for column in columns), strict=True)
        )
    )


def answer_attention(model: PreTrainedModel, example: TextExample) -> Tensor:
    """(N,) share of the attention of the rows that predict the answer, mean over rows, layers and heads."""
    tokens = torch.cat([example.tokens, torch.tensor(example.answer[:-1], dtype=example.tokens.dtype)])
    rows = Span(len(example.tokens) - 1, len(tokens))
    return window_attention(model, tokens[None], example.blocks, rows).mean((1, 2))[0] / len(rows)

"""One view as a sequence of tokens, and what is read from its logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keepset.blocks import Example
from keepset.interventions.operators import View

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """What the model says about each continuation, token by token."""

    log_probs: tuple[tuple[float, ...], ...]
    """Log-probability of every token of every continuation."""
    top: tuple[tuple[int, ...], ...]
    """The most likely token in the place of every token of every continuation."""


@dataclass(eq=False)
class Job:
    """One view to run, and what came out of it."""

    example: Example
    view: View
    continuations: tuple[Tokens, ...]
    reading: Reading | None = None
    generated: Tokens = ()


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the tokens of a view stand, and which rows are read.

    positions   0 1 2 | 9 10 11 | 12  12 13     two visible blocks, the query, two continuations
    branch      0 0 0 | 0 0  0  | 1   2  2      continuations see the context and themselves
    """

    positions: Tensor
    """(S,) true positions; a continuation starts right after the context."""
    branch: Tensor
    """(S,) 0 for the context, c for a token of the c-th continuation."""
    context: int
    """How many of the S tokens are context."""
    reads: tuple[tuple[int, ...], ...]
    """For every continuation, the rows whose next-token predictions are its tokens."""

    def __len__(self) -> int:
        return len(self.positions)


def layout_of(positions: Tensor, lengths: Sequence[int]) -> Layout:
    """Context tokens at ``positions``, then continuations of ``lengths``; nobody reads their last tokens."""
    context, end = len(positions), int(positions[-1]) + 1
    parts, branches, reads = [positions], [torch.zeros(context, dtype=torch.long)], []
    offset = context
    for c, length in enumerate(lengths):
        parts.append(torch.arange(end, end + length - 1))
        branches.append(torch.full((length - 1,), c + 1))
        reads.append((context - 1, *range(offset, offset + length - 1)))
        offset += length - 1
    return Layout(torch.cat(parts), torch.cat(branches), context, tuple(reads))


def sequence_tokens(layout: Layout, job: Job) -> Tensor:
    """(S,) the token ids that stand at ``layout``."""
    tails = [token for continuation in job.continuations for token in continuation[:-1]]
    context = job.view.tokens[layout.positions[: layout.context]]
    return torch.cat([context, torch.tensor(tails, dtype=context.dtype)]) if tails else context


def read_logits(
    logits: Tensor,
    columns: dict[int, int],
    jobs: Sequence[Job],
    rows: Sequence[Sequence[Sequence[int]]],
    temperature: float,
) -> None:
    """Fills the reading of every job from (B, C, V) logits.

    ``columns`` maps a row of the forward to its place among the C kept ones; ``rows[b]`` are the forward's
    rows that predict the tokens of each continuation of job b.
    """
    where = [
        (b, columns[row], token)
        for b, job in enumerate(jobs)
        for tokens, own in zip(job.continuations, rows[b], strict=True)
        for token, row in zip(tokens, own, strict=True)
    ]
    b, c, token = (torch.tensor(column, device=logits.device) for column in zip(*where, strict=True))
    scaled = logits[b, c].float() / temperature  # (M, V): only rows somebody reads
    log_z = scaled.logsumexp(-1)
    if bool(torch.isnan(log_z).any()):
        wrong = jobs[int(b[torch.isnan(log_z)][0])]
        raise ValueError(
            f"logits: expected numbers, got NaN with blocks {list(wrong.view.visible)} visible; "
            "load the model in float32 or bfloat16 (float16 overflows), or check its weights"
        )
    log_probs = iter((scaled.gather(-1, token[:, None])[:, 0] - log_z).tolist())
    top = iter(scaled.argmax(-1).tolist())
    for job in jobs:
        job.reading = Reading(
            tuple(tuple(next(log_probs) for _ in tokens) for tokens in job.continuations),
            tuple(tuple(next(top) for _ in tokens) for tokens in job.continuations),
        )

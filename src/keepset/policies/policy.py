"""What a policy is given, and what it gives back.

    class Longest:
        name = "longest"
        title = "longest blocks"
        regimes = BOTH

        def score(self, context: Context) -> Tensor:
            return torch.tensor([float(len(span)) for span in context.blocks])

Budget, ties and protected blocks are not its business: ``keepset.pruning.budget.select`` is the same for all.
"""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import Span
from keepset.readouts.layers import check_blocks
from keepset.routers.block import Regime
from keepset.routers.features import block_features

PRE_QUERY: frozenset[Regime] = frozenset({"pre_query"})
QUERY_AWARE: frozenset[Regime] = frozenset({"query_aware"})
BOTH = PRE_QUERY | QUERY_AWARE

WINDOW = 64
"""Rows at the end of the context that look where there is no question: what SnapKV's users run pre-query."""


@dataclass(frozen=True, eq=False)
class Context:
    """One context and the model that reads it; with a question where the regime is ``query_aware``."""

    model: PreTrainedModel
    tokens: Tensor
    """(T,) token ids of prefix and context."""
    blocks: tuple[Span, ...]
    question: Tensor | None = None
    """(Q,) token ids of everything after the context, up to where the answer starts."""
    _features: dict[int, Tensor] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, tokens in (("tokens", self.tokens), ("question", self.question)):
            if tokens is not None and (tokens.ndim != 1 or tokens.is_floating_point() or len(tokens) == 0):
                raise ValueError(
                    f"{name}: expected whole numbers (T,), at least one, got {tokens.dtype} {tuple(tokens.shape)}"
                )
        check_blocks(self.blocks, len(self.tokens))

    @property
    def regime(self) -> Regime:
        return "pre_query" if self.question is None else "query_aware"

    @property
    def batch(self) -> Tensor:
        """(1, T) what a forward reads: the context, and the question when there is one."""
        return (self.tokens if self.question is None else torch.cat([self.tokens, self.question]))[None]

    def features(self, layers: int) -> Tensor:
        """What block routers read of it after ``layers`` layers; computed once for all of them."""
        if layers not in self._features:
            question = None if self.question is None else self.question[None]
            self._features[layers] = block_features(self.model, self.tokens[None], self.blocks, question, layers)
        return self._features[layers]

    def observing_rows(self, window: int) -> Span:
        """The rows of ``batch`` that look at the context: the question's, or the last ``window`` of the context."""
        if self.question is not None:
            return Span(len(self.tokens), len(self.tokens) + len(self.question))
        return Span(max(0, len(self.tokens) - window), len(self.tokens))


class Policy(Protocol):
    """Ranks the blocks of a document for keeping."""

    @property
    def name(self) -> str:
        """One word, for commands and files."""
        ...

    @property
    def title(self) -> str:
        """For tables."""
        ...

    @property
    def regimes(self) -> frozenset[Regime]:
        """The regimes the policy can work in."""
        ...

    def score(self, context: Context) -> Tensor:
        """(N,) one number per block, higher is kept first."""
        ...


def score_checked(policy: Policy, context: Context) -> Tensor:
    """(N,) float32 on the CPU: the policy's scores, if it works in the context's regime and gives proper numbers."""
    if context.regime not in policy.regimes:
        reads = "without a question" if context.question is None else "with a question"
        advice = "pass the question" if context.question is None else "leave the question out"
        raise ValueError(
            f"{policy.name}: expected a context of regime {' or '.join(sorted(policy.regimes))}, got one {reads}; "
            f"{advice}, or take another policy"
        )
    scores = policy.score(context)
    if tuple(scores.shape) != (len(context.blocks),) or not bool(scores.isfinite().all()):
        raise ValueError(
            f"{policy.name}: expected one finite score per block ({len(context.blocks)}), got shape "
            f"{tuple(scores.shape)}{'' if scores.isfinite().all() else ' with NaN or infinity'}"
        )
    return scores.detach().float().cpu()

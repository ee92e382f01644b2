"""What an explanation will take, before it is begun: counted in tokens, timed on the beginning of the prompt."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from transformers import PreTrainedModel

from keepset.interventions import Effort, Executor
from keepset.text.example import TextExample

MAX_MINUTES = 10.0
"""Longer than a person waits without having been asked."""
TIMED_TOKENS = 1_024
"""Of the clean prompt, to see how fast the model is: enough for a forward to cost what its tokens cost."""


@dataclass(frozen=True)
class Plan:
    """What exact effects will take."""

    n_blocks: int
    prompt_tokens: int
    tokens: int
    """Of all keep sets together, common beginnings once."""
    seconds_per_token: float

    @property
    def seconds(self) -> float:
        return self.tokens * self.seconds_per_token

    @property
    def keep_sets(self) -> int:
        return 2 * self.n_blocks + 1

    def sentence(self, effort: Effort) -> str:
        most = "" if effort == "exact" else "at most "
        return (
            f"{self.n_blocks:,} blocks, {self.prompt_tokens:,} tokens: {most}{self.keep_sets:,} keep sets, as much as "
            f"{self.tokens / self.prompt_tokens:,.0f} forwards of the whole prompt, about {duration(self.seconds)}; "
            "then the minimal sufficient sets"
        )

    def check(self, max_minutes: float) -> None:
        if self.seconds > 60 * max_minutes:
            raise ValueError(
                f"cost: expected at most {duration(60 * max_minutes)}, got an estimate of {duration(self.seconds)} "
                f"for {self.keep_sets:,} keep sets of {self.n_blocks:,} blocks ({self.tokens:,} tokens); take larger "
                "blocks ('paragraph', '128 tokens'), or go on with --yes (max_minutes=math.inf)"
            )


def make_plan(model: PreTrainedModel, example: TextExample, answer_tokens: int) -> Plan:
    """Counts the tokens of every keep set and times the model on the beginning of the prompt."""
    n_tokens, n_blocks = len(example.tokens), len(example.blocks)
    after = answer_tokens - 1
    hidden = sum(n_tokens - span.stop for span in example.blocks)
    alone = sum(len(span) for span in example.blocks) + n_blocks * len(example.query)
    return Plan(
        n_blocks=n_blocks,
        prompt_tokens=n_tokens,
        tokens=n_tokens + hidden + alone + after * (2 * n_blocks + 1),
        seconds_per_token=seconds_per_token(model, example.tokens[:TIMED_TOKENS]),
    )


@torch.inference_mode()
def seconds_per_token(model: PreTrainedModel, tokens: Tensor) -> float:
    """Of one forward; long prompts cost more per token, so an estimate for one is a lower bound."""
    tokens = tokens[None].to(model.device)
    model(tokens[:, :8], use_cache=False)  # the first forward of a process sets things up
    began = time.perf_counter()
    model(tokens, use_cache=False, logits_to_keep=1)
    return (time.perf_counter() - began) / tokens.shape[1]


def duration(seconds: float) -> str:
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


@contextmanager
def watched(executor: Executor, tokens: int, console: Console | None) -> Iterator[Callable[[str], None]]:
    """A bar over the tokens of the plan, moved by every forward; nothing where nobody watches.

    Gives what begins the next phase, whose length nobody knows.
    """
    if console is None or not console.is_terminal:
        yield lambda phase: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("hiding blocks", total=tokens)
        hook = executor.model.register_forward_hook(
            lambda *_: progress.update(task, completed=min(executor.cost.tokens, tokens))
        )
        try:
            yield lambda phase: progress.update(task, description=phase, total=None)
        finally:
            hook.remove()

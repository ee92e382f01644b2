"""What an explanation will take, before it is begun: counted in tokens, timed on the beginning of the prompt."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from transformers import PreTrainedModel

from keepset.interventions import Executor
from keepset.labels.support import MOST_BLOCKS, PARTNERS, SupportEffort
from keepset.terminal import duration
from keepset.text.example import TextExample

MAX_MINUTES = 10.0
"""Longer than a person waits without having been asked."""
TIMED_TOKENS = 64
"""Of the prompt, to see how fast the model is: enough for a forward to cost what its tokens cost."""
TIMED = 2
"""Forwards of each width that are timed: the first of a process also sets things up."""
SHORT_REPLY = 24
"""Tokens of the replies to parts of the text: enough to see whether the model says something else."""


@dataclass(frozen=True)
class Plan:
    """What one explanation will take at most, everything included."""

    n_blocks: int
    prompt_tokens: int
    tokens: int
    """Of the reply, the question, every block alone, hidden where the effort asks for it, and the short replies."""
    more_tokens: int
    """If no block is enough alone: of the best one's partners, and of the sets that are grown from it and pruned."""
    steps: int
    """Tokens that are written, each by a forward of its own."""
    seconds_per_token: float
    seconds_per_step: float

    @property
    def seconds(self) -> float:
        return self.tokens * self.seconds_per_token + self.steps * self.seconds_per_step

    @property
    def most_seconds(self) -> float:
        return self.seconds + self.more_tokens * self.seconds_per_token

    def sentence(self) -> str:
        usual, most = duration(self.seconds), duration(self.most_seconds)
        more = "" if most == usual else f", or {most} where no block is enough alone"
        return f"{self.n_blocks:,} blocks, {self.prompt_tokens:,} tokens: at most about {usual}{more}"

    def check(self, max_minutes: float) -> None:
        if self.most_seconds > 60 * max_minutes:
            raise ValueError(
                f"cost: expected at most {duration(60 * max_minutes)}, got an estimate of "
                f"{duration(self.most_seconds)} for {self.n_blocks:,} blocks "
                f"({self.tokens + self.more_tokens:,} tokens); take larger blocks ('paragraph', '128 tokens'), or go "
                "on with --yes (max_minutes=math.inf)"
            )


def make_plan(
    model: PreTrainedModel, example: TextExample, reply_tokens: int, effort: SupportEffort, attention: bool
) -> Plan:
    """Counts the tokens of everything that will be read and written; times the model on a little."""
    n_tokens, n_blocks = len(example.tokens), len(example.blocks)
    after = len(example.query) + reply_tokens
    blocks = sum(len(span) for span in example.blocks)
    once = {
        "the prompt": n_tokens,
        "question and reply with everything and with nothing": 2 * after,
        "every block alone": blocks + n_blocks * after,
        "the short replies": n_tokens + 2 * (blocks // n_blocks + len(example.query)),
    }
    if effort != "evidence":
        once["every block hidden"] = sum(n_tokens - span.stop for span in example.blocks) + n_blocks * reply_tokens
        once["the evidence hidden"] = n_tokens + reply_tokens
    if attention:
        once["attention"] = n_tokens + reply_tokens
    sets = min(PARTNERS, n_blocks - 1) + 2 * min(MOST_BLOCKS, n_blocks)
    per_token, per_step = timings(model, example.tokens[:TIMED_TOKENS])
    return Plan(
        n_blocks=n_blocks,
        prompt_tokens=n_tokens,
        tokens=sum(once.values()),
        more_tokens=sets * (2 * blocks // n_blocks + after),
        steps=reply_tokens + 3 * min(SHORT_REPLY, reply_tokens),
        seconds_per_token=per_token,
        seconds_per_step=per_step,
    )


@torch.inference_mode()
def timings(model: PreTrainedModel, tokens: Tensor) -> tuple[float, float]:
    """Seconds per token of one forward, and of a forward of one token. Long prompts cost more per token."""
    tokens = tokens[None].to(model.device)

    def seconds(width: int) -> float:
        began = time.perf_counter()
        model(tokens[:, :width], use_cache=False, logits_to_keep=1)
        return time.perf_counter() - began

    # the quicker one: another process may have had the processor
    whole, one = (min(seconds(width) for _ in range(TIMED)) for width in (tokens.shape[1], 1))
    return whole / tokens.shape[1], one


@contextmanager
def progress_bar(executor: Executor, tokens: int, console: Console | None) -> Iterator[None]:
    """A bar over the tokens of the plan, moved by every forward; nothing where nobody watches."""
    if console is None or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=tokens)
        hook = executor.model.register_forward_hook(
            lambda *_: progress.update(task, completed=min(executor.cost.tokens, tokens))
        )
        try:
            yield
        finally:
            hook.remove()

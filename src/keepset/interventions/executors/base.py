"""What every executor shares: the question, the reading, and the cost."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from keepset.blocks import Example, KeepSet
from keepset.interventions.executors.layout import Job, Reading, Tokens
from keepset.interventions.operators import Mask, Operator
from keepset.models.capabilities import check_positions, check_supported, check_vocabulary, sliding_windows

MAX_TOKENS = 16_384
"""Default bound on the tokens of one forward, and on the tokens whose keys and values are held at once."""


@dataclass(frozen=True, eq=False)
class Ask:
    """Read the continuations of ``example`` when only ``keep`` is visible."""

    example: Example
    keep: KeepSet
    continuations: tuple[Tokens, ...]
    """Each is read after the whole context, and none sees another."""


@dataclass
class Cost:
    """What was computed."""

    tokens: int = 0
    """Token positions that went through the model, padding included."""
    forwards: int = 0
    """Calls of the model."""
    views: int = 0
    """Keep sets run, counted once per alternative of the operator."""

    def since(self, earlier: "Cost") -> "Cost":
        """What was added after ``earlier`` was copied."""
        return Cost(self.tokens - earlier.tokens, self.forwards - earlier.forwards, self.views - earlier.views)

    def copy(self) -> "Cost":
        return replace(self)


class Executor(ABC):
    """Runs keep sets of examples on a frozen model."""

    def __init__(self, model: PreTrainedModel, operator: Operator | None = None, max_tokens: int = MAX_TOKENS) -> None:
        check_model(model)
        if max_tokens < 1:
            raise ValueError(f"max_tokens: expected at least 1, got {max_tokens}")
        self.model = model
        self.operator: Operator = operator or Mask()
        self.max_tokens = max_tokens
        self.cost = Cost()
        self.windows = sliding_windows(model)
        self.device = next(model.parameters()).device

    def read(self, asks: Sequence[Ask], temperature: float = 1.0) -> list[list[Reading]]:
        """For every ask, one reading per view of the operator (one, unless it has alternatives)."""
        if not temperature > 0:
            raise ValueError(f"temperature: expected a positive number, got {temperature}")
        jobs = self._jobs(asks)
        with torch.inference_mode():
            self._run(unique([job for row in jobs for job in row]), temperature)
        return [[job.reading for job in row if job.reading is not None] for row in jobs]

    def generate(
        self, asks: Sequence[Ask], max_new_tokens: int, stop: frozenset[int] = frozenset(), guess: Tokens = ()
    ) -> list[list[Tokens]]:
        """For every ask and view, the greedy continuation, up to and without the first ``stop`` token.

        As far as continuations begin like ``guess``, an executor may read its tokens together instead of one by one.
        """
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected at least 1, got {max_new_tokens}")
        # The last token is a placeholder: what is read is the greedy token in its place, and in that of each guess.
        blank = [Ask(ask.example, ask.keep, ((*guess[: max_new_tokens - 1], 0),)) for ask in asks]
        jobs = self._jobs(blank, reserve=max_new_tokens)
        with torch.inference_mode():
            self._generate(unique([job for row in jobs for job in row]), max_new_tokens, stop)
        return [[until(job.generated, stop) for job in row] for row in jobs]

    def check(self, ask: Ask, reserve: int = 0) -> None:
        """Raises ValueError when the model cannot read ``ask``, or ``reserve`` generated tokens after it."""
        check_vocabulary(self.model, ask.example.tokens, "tokens")
        check_continuations(self.model, ask, reserve)

    @contextmanager
    def hold(self, examples: Sequence[Example]) -> Iterator[None]:
        """Inside, an executor may keep what it computed for ``examples`` between calls; outside, it never does."""
        yield

    @abstractmethod
    def _run(self, jobs: list[Job], temperature: float) -> None: ...

    @abstractmethod
    def _generate(self, jobs: list[Job], max_new_tokens: int, stop: frozenset[int]) -> None: ...

    def _jobs(self, asks: Sequence[Ask], reserve: int = 0) -> list[list[Job]]:
        """Views of every ask; equal views of one example become one job. Bad input fails here, before any work."""
        for ask in {(id(ask.example), ask.continuations): ask for ask in asks}.values():
            self.check(ask, reserve)
        known: dict[tuple[int, tuple[Tokens, ...], tuple[tuple[int, int], ...]], Job] = {}
        rows = []
        for ask in asks:
            row = []
            for view in self.operator.views(ask.example, ask.keep):
                key = (id(ask.example), ask.continuations, view.string)
                if key not in known:
                    known[key] = Job(ask.example, view, ask.continuations)
                row.append(known[key])
            rows.append(row)
        self.cost.views += len(known)
        return rows


def unique(jobs: list[Job]) -> list[Job]:
    """Each job once, in order."""
    return list({id(job): job for job in jobs}.values())


def until(tokens: Tokens, stop: frozenset[int]) -> Tokens:
    """``tokens`` up to, not including, the first one in ``stop``."""
    end = next((i for i, token in enumerate(tokens) if token in stop), len(tokens))
    return tokens[:end]


def check_model(model: PreTrainedModel) -> None:
    """A frozen model whose positions and windows the engine can honour."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise ValueError(f"model: expected a transformers model, as load_model gives, got {type(model).__name__}")
    if model.training:
        raise ValueError(f"{type(model).__name__}: expected evaluation mode, got training mode; call model.eval()")
    check_supported(model)


def check_continuations(model: PreTrainedModel, ask: Ask, reserve: int) -> None:
    """Something to read, in tokens the model has and inside its positions."""
    if not ask.continuations or not all(ask.continuations):
        raise ValueError("continuations: expected at least one, each of at least one token, got an empty one")
    check_vocabulary(model, torch.tensor([token for tokens in ask.continuations for token in tokens]), "answer")
    needed = len(ask.example.tokens) + max(reserve, *(len(tokens) for tokens in ask.continuations)) - 1
    check_positions(model, needed, "context")

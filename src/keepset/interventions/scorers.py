"""Whether the model still gives the answer. "The answer" is always the gold one, never what the model said.

    GoldToken()                 one answer token: is it the most likely one?
    TeacherForced()             several answer tokens: is each the most likely one after the true ones before it?
    ForcedChoice(candidates)    is the answer the most likely of some written candidates?
    Confident()                 is the answer more likely than everything else together?

Every score also carries the log-probability of the whole answer, so drops mean the same under each.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keepset.blocks import Example, KeepSet
from keepset.interventions.executors.base import Ask, Executor
from keepset.interventions.executors.layout import Reading, Tokens

EVEN_ODDS = math.log(0.5)


@dataclass(frozen=True)
class Score:
    """What one keep set does to the answer; averaged over the operator's alternatives."""

    log_prob: float
    """Log-probability of the answer."""
    correct: bool
    """The answer is still given (by more than half of the alternatives)."""


class Scorer(ABC):
    """Judges keep sets of examples."""

    def score(self, executor: Executor, pairs: Sequence[tuple[Example, KeepSet]]) -> list[Score]:
        """One score per pair, by reading continuations."""
        asks = [Ask(example, keep, self.continuations(example)) for example, keep in pairs]
        readings = executor.read(asks, self.temperature)
        return [
            average([self.judge(example, reading) for reading in views])
            for (example, _), views in zip(pairs, readings, strict=True)
        ]

    temperature: float

    @abstractmethod
    def continuations(self, example: Example) -> tuple[Tokens, ...]:
        """What has to be read. Raises ValueError when ``example`` cannot be scored."""

    @abstractmethod
    def judge(self, example: Example, reading: Reading) -> Score: ...


@dataclass(frozen=True)
class TeacherForced(Scorer):
    """Every token of the answer is the most likely one."""

    temperature: float = 1.0
    """Divides the logits: changes log-probabilities, never which token is the most likely."""

    def continuations(self, example: Example) -> tuple[Tokens, ...]:
        return (example.answer,)

    def judge(self, example: Example, reading: Reading) -> Score:
        return Score(sum(reading.log_probs[0]), reading.top[0] == example.answer)


@dataclass(frozen=True)
class GoldToken(TeacherForced):
    """The one answer token is the most likely one."""

    def continuations(self, example: Example) -> tuple[Tokens, ...]:
        if len(example.answer) != 1:
            raise ValueError(
                f"answer: expected one token, got {len(example.answer)}; score longer answers with TeacherForced"
            )
        return (example.answer,)


@dataclass(frozen=True)
class Confident(TeacherForced):
    """The answer has even odds or better, over all alternatives of the operator together.

    A search for small sufficient sets meets many keep sets in which the model guesses, and a guess among three
    values is right one time in three. Being the most likely token is luck there; being likelier than all is not.
    """

    def score(self, executor: Executor, pairs: Sequence[tuple[Example, KeepSet]]) -> list[Score]:
        return [Score(s.log_prob, s.log_prob >= EVEN_ODDS) for s in super().score(executor, pairs)]


@dataclass(frozen=True)
class ForcedChoice(Scorer):
    """The answer is the most likely candidate. All candidates are read in the forward of the context."""

    candidates: Callable[[Example], Sequence[Tokens]]
    """The written candidates of an example; the answer is one of them."""
    temperature: float = 1.0

    def continuations(self, example: Example) -> tuple[Tokens, ...]:
        candidates = tuple(tuple(candidate) for candidate in self.candidates(example))
        check_candidates(candidates, example.answer)
        return candidates

    def judge(self, example: Example, reading: Reading) -> Score:
        sums = [sum(log_probs) for log_probs in reading.log_probs]
        candidates = [tuple(candidate) for candidate in self.candidates(example)]
        gold = sums[candidates.index(example.answer)]
        # Strictly: a tie with a wrong candidate is no evidence for the answer.
        return Score(gold, sum(other >= gold for other in sums) == 1)


def check_candidates(candidates: Sequence[Tokens], answer: Tokens) -> None:
    """Non-empty, the answer among them, and none the beginning of another."""
    if len(candidates) < 2 or not all(candidates):
        raise ValueError(f"candidates: expected at least two, each of at least one token, got {list(candidates)}")
    if answer not in candidates:
        raise ValueError(f"candidates: expected the answer {answer} among them, got {list(candidates)}")
    for i, one in enumerate(candidates):
        for j, other in enumerate(candidates):
            if i != j and other[: len(one)] == one:
                raise ValueError(
                    f"candidates: expected none to be a prefix of another, got {one} and {other}: the shorter one "
                    "is never less likely; add the token that ends an answer to both"
                )


def average(scores: Sequence[Score]) -> Score:
    """Mean log-probability; the answer holds when it holds for more than half."""
    return Score(
        sum(score.log_prob for score in scores) / len(scores),
        2 * sum(score.correct for score in scores) > len(scores),
    )

"""What is measured of a tool, with the same readings of the same masks for all."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean, stdev

from scipy.stats import spearmanr
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Fast
from keepset.labels.worth import Answer
from keepset.paper.bench.engine.peers import Rows
from keepset.paper.bench.engine.run import spend
from keepset.paper.bench.engine.tally import Spent
from keepset.paper.evidence.tools import Found, Tool
from keepset.paper.evidence.units import RUN, Shared, Task, Unit
from keepset.paper.result import Coordinate, Metric
from keepset.paper.statistics import share
from keepset.statistics import CONFIDENCE

HALVES = 8
"""Random half-masks of the linear datamodelling score."""
TOPS = (1, 3)


@dataclass
class Truth:
    """What really happens to the gold answer when sentences are hidden: read once, for every tool."""

    task: Task
    answer: Answer
    halves: list[KeepSet] = field(default_factory=list)

    def log_probs(self, keeps: Sequence[KeepSet]) -> list[float]:
        return [float(found.sum()) for found in self.answer.read(keeps)]

    def drop(self, hidden: KeepSet) -> float:
        """Nats that the answer loses."""
        full, without = self.log_probs([self.answer.everything, self.answer.everything - hidden])
        return full - without

    def datamodelling(self, scores: Sequence[float]) -> float:
        """Rank correlation of the scores of what is kept with the answer's log-probability; 0 for equal scores."""
        predicted = [sum(scores[i] for i in keep) for keep in self.halves]
        found = self.log_probs(self.halves)
        if len(set(predicted)) == 1 or len(set(found)) == 1:
            return 0.0
        return float(spearmanr(predicted, found).statistic)


def truth_of(
    unit: Unit, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, halves: int = HALVES, shared: bool = False
) -> Truth:
    """``shared``: tools read what no other has read yet, so that nothing can be told of what each would cost."""
    task = Task(unit, tokenizer)
    rng = random.Random(seeds.INTERVENTION.seed(RUN, unit.number))
    masks = [frozenset(rng.sample(range(task.n_blocks), task.n_blocks // 2)) for _ in range(halves)]
    answer = Answer(task.example, Fast(model))
    read = Shared(answer, Rows(model, len(answer.tokens) + 1)) if shared else None
    return Truth(replace(task, shared=read), answer, masks)


@dataclass(frozen=True)
class Outcome:
    """One tool on one question."""

    gold: KeepSet
    found: Found
    spent: Spent | None
    """None where other tools had read for it."""
    drops: tuple[float, ...]
    """Nats lost without the best 1 and 3 sentences."""
    datamodelling: float | None
    """None where no random masks were read."""

    @property
    def first(self) -> bool:
        """A gold sentence has the highest score, and no other has as high a one."""
        others = [score for i, score in enumerate(self.found.scores) if i not in self.gold]
        return max(self.found.scores[i] for i in self.gold) > max(others, default=float("-inf"))

    @property
    def ranked(self) -> bool:
        """The gold sentences stand before all others."""
        others = [score for i, score in enumerate(self.found.scores) if i not in self.gold]
        return min(self.found.scores[i] for i in self.gold) > max(others, default=float("-inf"))

    @property
    def exactly(self) -> bool:
        return self.found.chosen == self.gold

    @property
    def whole(self) -> bool:
        """Every gold sentence is in the set."""
        return self.gold <= self.found.chosen

    @property
    def precision(self) -> float:
        return len(self.gold & self.found.chosen) / max(len(self.found.chosen), 1)

    @property
    def recall(self) -> float:
        return len(self.gold & self.found.chosen) / len(self.gold)


def outcome(tool: Tool, truth: Truth, model: PreTrainedModel) -> Outcome:
    """Runs a tool on one question; the text is tokenised before the clock starts, readings come after it."""
    told: list[Found] = []
    task = truth.task
    _ = task.example
    spent = spend(model, lambda: told.append(tool(task)))
    (found,) = told
    order = sorted(range(task.n_blocks), key=lambda i: -found.scores[i])
    drops = tuple(truth.drop(frozenset(order[:top])) for top in TOPS)
    return Outcome(
        gold=task.unit.gold,
        found=found,
        spent=None if task.shared else spent,
        drops=drops,
        datamodelling=truth.datamodelling(found.scores) if truth.halves else None,
    )


def metrics(outcomes: Sequence[Outcome]) -> Iterator[Metric]:
    """The numbers of one tool on one part."""
    for what in ("first", "ranked", "exactly", "whole"):
        yield told(what, [getattr(outcome, what) for outcome in outcomes])
    for what in ("precision", "recall"):
        yield mean(what, [getattr(outcome, what) for outcome in outcomes])
    if correlations := [outcome.datamodelling for outcome in outcomes if outcome.datamodelling is not None]:
        yield mean("datamodelling", correlations)
    yield mean("size", [len(outcome.found.chosen) for outcome in outcomes])
    for place, top in enumerate(TOPS):
        yield mean("drop", [outcome.drops[place] for outcome in outcomes], top=top)
    if costs := [outcome.spent for outcome in outcomes if outcome.spent is not None]:
        yield mean("seconds", [spent.seconds for spent in costs])
        yield mean("tokens", [spent.tokens for spent in costs])


def told(what: str, right: Sequence[bool], **at: Coordinate) -> Metric:
    """A share, with the outcome of every question."""
    return share(what, sum(right), len(right), **at).model_copy(update={"each": "".join("01"[one] for one in right)})


def mean(what: str, values: Sequence[float], **at: Coordinate) -> Metric:
    """A mean with its 95 % interval."""
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return around(what, fmean(values), error, len(values), **at)


def around(what: str, value: float, error: float, n: int, **at: Coordinate) -> Metric:
    half = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * error
    return Metric(what=what, at=at, value=value, n=n, low=value - half, high=value + half)


def pooled_mean(what: str, parts: Sequence[Metric]) -> Metric:
    """The mean over parts of different questions; its error from what varies inside the parts."""
    n = sum(part.n for part in parts)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    errors = [part.n * ((part.high or 0.0) - (part.low or 0.0)) / (2 * z) for part in parts]
    return around(what, sum(part.value * part.n for part in parts) / n, sum(e * e for e in errors) ** 0.5 / n, n)


def pooled_shares(what: str, parts: Sequence[Metric]) -> Metric:
    """Shares of different questions as one, outcomes in the order of the parts."""
    each = "".join(part.each or "" for part in parts)
    return told(what, [character == "1" for character in each])

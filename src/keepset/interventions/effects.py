"""What hiding did: log-probability drop, flip and sufficiency of every block of every example."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import Example, ExampleBatch
from keepset.interventions.certified import Certificate, certify
from keepset.interventions.executors.base import Executor
from keepset.interventions.grouped import group_test
from keepset.interventions.probe import Probe
from keepset.interventions.scorers import GoldToken, Score, Scorer

Effort = Literal["exact", "certified", "grouped"]
"""How effects are measured."""

FLOOR = 0.25
"""Nats, the paper's. Hiding a block on the way to the answer costs a nat or more, a spare copy next to nothing."""


def check_effort(effort: str) -> None:
    """One of the three words."""
    if effort not in get_args(Effort):
        raise ValueError(f"effort: expected one of {', '.join(get_args(Effort))}, got {effort!r}")


@dataclass
class ScoreTable:
    """One score per example and block."""

    log_prob: Tensor
    """(B, N) log-probability of the answer; NaN where not measured."""
    correct: Tensor
    """(B, N) bool: the answer is given; False where not measured."""
    measured: Tensor
    """(B, N) bool: by a forward of its own, not concluded from others."""

    @classmethod
    def empty(cls, batch: int, n_blocks: int) -> "ScoreTable":
        correct, measured = torch.zeros(2, batch, n_blocks, dtype=torch.bool)
        return cls(torch.full((batch, n_blocks), torch.nan), correct, measured)

    def put(self, where: Sequence[tuple[int, int]], scores: Sequence[Score]) -> None:
        """Enters measured scores at (example, block)."""
        if not where:
            return
        i, block = torch.tensor(where).T
        self.log_prob[i, block] = torch.tensor([score.log_prob for score in scores])
        self.correct[i, block] = torch.tensor([score.correct for score in scores])
        self.measured[i, block] = True


class Effects:
    """Effects of every block, computed when first asked for. (B, N) tensors; short examples are padded.

    Efforts: ``exact`` runs every block. ``grouped`` runs leave-one-out in groups and opens those that move the
    answer. ``certified`` looks for one set it can prove on the example, and runs ``grouped`` where it cannot. What a
    cheaper effort concludes without a forward of its own has drop 0, no flip, and ``measured`` False.
    """

    def __init__(
        self,
        examples: ExampleBatch | Sequence[Example],
        executor: Executor,
        scorer: Scorer | None = None,
        effort: Effort = "exact",
        threshold: float = FLOOR,
    ) -> None:
        check_effort(effort)
        self.probe = Probe(examples, executor, scorer or GoldToken())
        self.effort = effort
        self.threshold = threshold
        self._counts = [len(example.blocks) for example in self.probe.examples]

    @property
    def exists(self) -> Tensor:
        """(B, N) bool: False where a shorter example is padded."""
        return torch.arange(max(self._counts, default=0))[None, :] < torch.tensor(self._counts)[:, None]

    @cached_property
    def _clean(self) -> list[Score]:
        scores: list[Score] = []
        for group in self.probe.groups(range(len(self.probe))):
            scores += self.probe.score([(i, self.probe.blocks(i)) for i in group])
        return scores

    @property
    def clean_log_prob(self) -> Tensor:
        """(B,) log-probability of the answer with every block visible."""
        return torch.tensor([score.log_prob for score in self._clean])

    @property
    def clean_correct(self) -> Tensor:
        """(B,) bool."""
        return torch.tensor([score.correct for score in self._clean], dtype=torch.bool)

    @property
    def drop(self) -> Tensor:
        """(B, N) nats the answer loses when the block is hidden; negative where hiding helps."""
        hidden = self.hidden  # first: it computes the clean scores along the way
        return torch.where(hidden.measured, self.clean_log_prob[:, None] - hidden.log_prob, 0.0)

    @property
    def flip(self) -> Tensor:
        """(B, N) bool: the answer is given with every block visible, and not with this one hidden.

        Where the clean answer is wrong there is nothing to flip, so nothing is necessary; drops and sufficiency
        still measure support for the gold answer there, as in the paper.
        """
        hidden = self.hidden  # first: it computes the clean scores along the way
        return self.clean_correct[:, None] & hidden.measured & ~hidden.correct

    @property
    def sufficient(self) -> Tensor:
        """(B, N) bool: the answer is given with only this block kept."""
        return self.alone.correct

    @property
    def certified(self) -> Tensor:
        """(B,) bool: the effects of this example rest on a certificate (effort ``certified`` only)."""
        found = self._certificates if self.effort == "certified" else {}
        return torch.tensor([found.get(i) is not None for i in range(len(self.probe))], dtype=torch.bool)

    @cached_property
    def hidden(self) -> ScoreTable:
        """Leave-one-out: each block hidden, all others kept."""
        return self._hidden(range(len(self.probe)))

    @cached_property
    def flip_unless_sufficient(self) -> Tensor:
        """(B, N) bool: ``flip`` of the examples of which no block is sufficient; False for the others.

        All that an evidence set asks of leave-one-out, which is most of the work: where one block is enough alone,
        nobody needs to know which ones are necessary.
        """
        numbers = (~self.sufficient.any(1)).nonzero().flatten().tolist()
        hidden = self._hidden(numbers)
        return self.clean_correct[:, None] & hidden.measured & ~hidden.correct if numbers else hidden.correct

    @cached_property
    def alone(self) -> ScoreTable:
        """Singletons: each block kept, all others hidden."""
        certificates = self._certificates if self.effort == "certified" else {}
        table = ScoreTable.empty(*self.exists.shape)
        for group in self.probe.groups([i for i in range(len(self.probe)) if certificates.get(i) is None]):
            where = [(i, block) for i in group for block in range(self._counts[i])]
            table.put(where, self.probe.score([(i, frozenset({block})) for i, block in where]))
        for i, found in certificates.items():
            if found is not None and len(found.keep) == 1:
                table.put([(i, min(found.keep))], [found.alone])
        return table

    @cached_property
    def _certificates(self) -> dict[int, Certificate | None]:
        found: dict[int, Certificate | None] = {}
        for group in self.probe.groups(range(len(self.probe))):
            searches = {i: certify(self._counts[i], seeds.INTERVENTION.seed(0, i % seeds.DRAWS)) for i in group}
            with self.probe.hold(group):
                found |= self.probe.search(searches)
        return found

    def _hidden(self, numbers: Sequence[int]) -> ScoreTable:
        """Leave-one-out of the examples ``numbers``, as the effort does it."""
        if self.effort == "exact":
            return self._leave_one_out(numbers)
        if self.effort == "grouped":
            return self._group_tested(numbers)
        table = self._group_tested([i for i in numbers if self._certificates[i] is None])
        for i in numbers:
            if found := self._certificates[i]:
                table.put([(i, block) for block in found.hidden], list(found.hidden.values()))
        return table

    def _leave_one_out(self, numbers: Sequence[int]) -> ScoreTable:
        table = ScoreTable.empty(*self.exists.shape)
        for group in self.probe.groups(numbers):
            where = [(i, block) for i in group for block in range(self._counts[i])]
            # The clean contexts go along: everything branches off them, and drops need them anyway.
            clean = [(i, self.probe.blocks(i)) for i in group]
            hidden = [(i, self.probe.blocks(i) - {block}) for i, block in where]
            table.put(where, self.probe.score(clean + hidden)[len(clean) :])
        return table

    def _group_tested(self, numbers: Sequence[int]) -> ScoreTable:
        table = ScoreTable.empty(*self.exists.shape)
        for group in self.probe.groups(numbers):
            with self.probe.hold(group):
                found = self.probe.search({i: group_test(self._counts[i], self.threshold) for i in group})
            for i, test in found.items():
                table.put([(i, block) for block in test.hidden], list(test.hidden.values()))
        return table

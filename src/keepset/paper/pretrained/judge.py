"""Forced choice under keep sets, with everything that can be shared computed once."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from keepset.blocks import Example, KeepSet
from keepset.interventions import Fast, ForcedChoice, Operator, Probe
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.pretrained.settings import Setting, frozen
from keepset.paper.result import Coordinate, Metric
from keepset.paper.testbed.tasks.records import RecordExample
from keepset.text.example import TextExample

K = TypeVar("K", bound=Hashable)
Choice = RecordExample | TextExample
"""An example with candidates."""


def candidates(example: Example) -> Sequence[tuple[int, ...]]:
    """The written candidates."""
    assert isinstance(example, Choice)
    return example.candidates


def choosing(setting: Setting, examples: Sequence[Choice], operator: Operator | None = None) -> Probe:
    """The frozen model, made to choose among the candidates of each example."""
    model, _ = frozen(setting)
    return Probe(examples, Fast(model, operator), ForcedChoice(candidates))


@dataclass(frozen=True)
class Judged(Generic[K]):
    """What was chosen with everything visible, and under each keep set."""

    dense: list[bool]
    kept: list[dict[K, bool]]

    def share(self, what: str, key: K, **at: Coordinate) -> Metric | None:
        """How often the choice under ``key`` is right, of the examples that were asked it; None where none was."""
        return share_of(what, self.outcomes(key), **at)

    def lost(self, what: str, key: K, **at: Coordinate) -> Metric | None:
        """How often it is wrong."""
        return share_of(what, [None if right is None else not right for right in self.outcomes(key)], **at)

    def outcomes(self, key: K) -> list[Outcome]:
        return [row.get(key) for row in self.kept]


def judge(probe: Probe, asked: Callable[[int, bool], Mapping[K, KeepSet]]) -> Judged[K]:
    """Every example with everything visible, then under the keep sets ``asked`` (number, solved) names for it."""
    dense: list[bool] = []
    kept: list[dict[K, bool]] = []
    for group in probe.groups(range(len(probe))):
        with probe.hold(group):
            solved = [score.correct for score in probe.score([(i, probe.blocks(i)) for i in group])]
            wanted = [asked(i, correct) for i, correct in zip(group, solved, strict=True)]
            asks = [(i, keep) for i, keeps in zip(group, wanted, strict=True) for keep in keeps.values()]
            scores = iter(probe.score(asks))
        dense += solved
        kept += [{key: next(scores).correct for key in keeps} for keeps in wanted]
    return Judged(dense, kept)

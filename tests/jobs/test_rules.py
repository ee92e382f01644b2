"""The rule of worth in labels, on answers whose truth is known by hand: a rule says what each keep set does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
import torch

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Ask, Executor, Reading
from keepset.jobs.rules import Basis, worth_bases
from keepset.labels.support import SupportEffort
from keepset.text.example import TextExample

BLOCKS = 6
LOST, GIVEN, FILLER = -6.0, -0.1, -0.3
Gives = Callable[[KeepSet], bool]


class Ruled:
    """Stands where the executor would: between filler, one token that is likely when ``gives`` says so."""

    def __init__(self, gives: Gives, says_so: bool) -> None:
        self.gives = gives
        self.says_so = says_so
        """The answer is also what the model would write."""

    @contextmanager
    def hold(self, examples: Sequence[Example]) -> Iterator[None]:
        yield

    def read(self, asks: Sequence[Ask]) -> list[list[Reading]]:
        return [[self._reading(ask)] for ask in asks]

    def _reading(self, ask: Ask) -> Reading:
        (tokens,) = ask.continuations
        values = (FILLER, GIVEN if self.gives(ask.keep) else LOST, FILLER)[: len(tokens)]
        return Reading((values,), (tokens if self.says_so else (0,) * len(tokens),))


def basis(gives: Gives, effort: SupportEffort = "evidence", says_so: bool = False) -> Basis:
    example = TextExample(
        tokens=torch.arange(BLOCKS + 1),
        blocks=tuple(Span(i, i + 1) for i in range(BLOCKS)),
        query=Span(BLOCKS, BLOCKS + 1),
        answer=(1, 2, 3),
        text="",
        block_texts=("",) * BLOCKS,
    )
    (found,) = worth_bases([example], cast(Executor, Ruled(gives, says_so)), effort)
    return found


@pytest.mark.parametrize("says_so", [True, False])
def test_a_supported_answer_has_evidence_however_the_model_would_word_it(says_so: bool) -> None:
    found = basis(lambda keep: 2 in keep, says_so=says_so)
    assert (found.rule, found.clean_correct) == ("worth", says_so)
    assert (found.evidence, found.others, found.case) == ([2], [], "alternatives")
    assert found.worth == pytest.approx(GIVEN - LOST)
    assert found.clean_log_prob == pytest.approx(GIVEN + 2 * FILLER)
    assert found.sufficient == [i == 2 for i in range(BLOCKS)]
    assert (found.drop, found.measured, found.flip) == ([0.0] * BLOCKS, [False] * BLOCKS, [False] * BLOCKS)


def test_drops_are_there_where_they_were_measured() -> None:
    found = basis(lambda keep: 2 in keep, "exact")
    assert all(found.measured)
    assert found.drop == pytest.approx([GIVEN - LOST if i == 2 else 0 for i in range(BLOCKS)])
    assert found.flip == [i == 2 for i in range(BLOCKS)]


def test_two_blocks_that_both_say_it_are_alternatives() -> None:
    found = basis(lambda keep: bool(keep & {1, 4}), "exact")
    assert (found.evidence, found.case) == ([1, 4], "alternatives")
    assert len(found.others) == 1
    assert set(found.others) < {1, 4}
    assert not any(found.flip), "either can be spared"


def test_two_blocks_that_say_it_together_are_necessary() -> None:
    found = basis(lambda keep: {1, 4} <= keep, "exact")
    assert (found.evidence, found.others, found.case) == ([1, 4], [], "necessary")
    assert not any(found.sufficient)
    assert found.flip == [i in (1, 4) for i in range(BLOCKS)]


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
@pytest.mark.parametrize("always", [True, False], ids=["known anyway", "never likely"])
def test_a_text_that_is_worth_nothing_is_no_evidence(effort: SupportEffort, always: bool) -> None:
    found = basis(lambda keep: always, effort, says_so=True)
    assert (found.worth, found.evidence, found.others, found.case) == (0, [], [], "empty")
    assert not any(found.sufficient + found.flip)
    assert found.clean_correct, "given, but not from the text"


def test_what_helps_alone_and_not_in_the_whole_text_is_no_evidence() -> None:
    found = basis(lambda keep: keep == {3})
    assert (found.worth, found.evidence, found.case) == (0, [], "empty")
    assert not any(found.sufficient)

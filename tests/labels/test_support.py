"""The rule of worth on answers whose truth is known by hand: a rule says what each keep set does to each token."""

from collections.abc import Callable, Sequence
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Ask, Executor, Fast, Reading
from keepset.labels.support import MOST_BLOCKS, PARTNERS, Support, SupportEffort, find_support
from keepset.labels.worth import NEARLY_ALL, Answer
from keepset.text.example import TextExample, text_example
from tests.labels.conftest import Loaded

Rule = Callable[[KeepSet], Sequence[float]]
"""Keep set -> log-probability of every token of the answer."""
BLOCKS = 8
LOST, GIVEN = -6.0, -0.1
FILLER = -0.3
"""A token that is as likely without the text."""


class Ruled:
    """Stands where the executor would, and counts what it is asked."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.asked: list[KeepSet] = []
        self.lengths: list[int] = []

    def read(self, asks: Sequence[Ask]) -> list[list[Reading]]:
        self.asked += [ask.keep for ask in asks]
        self.lengths += [len(ask.continuations[0]) for ask in asks]
        lengths = (len(ask.continuations[0]) for ask in asks)
        values = [tuple(self.rule(ask.keep))[:n] for ask, n in zip(asks, lengths, strict=True)]
        return [[Reading((value,), ((0,) * len(value),))] for value in values]


def answer_of(rule: Rule, n_blocks: int = BLOCKS) -> Answer:
    length = len(rule(frozenset()))
    example = Example(
        tokens=torch.arange(n_blocks + 1),
        blocks=tuple(Span(i, i + 1) for i in range(n_blocks)),
        query=Span(n_blocks, n_blocks + 1),
        answer=(1,) * length,
    )
    return Answer(example, cast(Executor, Ruled(rule)))


def asked_answer(asked: Rule, rule: Rule) -> Answer:
    """With a question of which ``asked`` says how likely each word is, and a template's end that nothing changes."""
    plain = answer_of(rule)
    words, end = len(asked(frozenset())), 2
    example = TextExample(
        tokens=torch.arange(BLOCKS + 1 + words + end),
        blocks=plain.example.blocks,
        query=Span(BLOCKS, BLOCKS + 1 + words + end),
        answer=plain.example.answer,
        text="",
        block_texts=(),
        asked=Span(BLOCKS + 1, BLOCKS + 1 + words),
    )
    return Answer(example, cast(Executor, Ruled(lambda keep: [*asked(keep), FILLER, -5.0 + len(keep), *rule(keep)])))


def said_in(*blocks: int, tokens: int = 2) -> Rule:
    """Words that any of the blocks gives."""
    return lambda keep: [GIVEN if keep & set(blocks) else LOST] * tokens


def says(*sets: set[int], partly: float = LOST) -> Rule:
    """Two tokens that any of ``sets`` gives between filler; a part of a set gives ``partly``."""

    def rule(keep: KeepSet) -> list[float]:
        if any(found <= keep for found in sets):
            value = GIVEN
        else:
            value = partly if any(found & keep for found in sets) else LOST
        return [FILLER, value, FILLER, value]

    return rule


def support(rule: Rule, effort: str = "evidence") -> Support:
    return find_support(answer_of(rule), effort=effort)  # type: ignore[arg-type]


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_one_sentence_says_it(effort: str) -> None:
    found = support(says({3}), effort)
    assert (found.evidence, found.others, found.close) == ({3}, set(), set())
    assert found.enough
    assert found.worth == pytest.approx(2 * (GIVEN - LOST))
    assert found.restored[3] == pytest.approx(1.0)
    if effort != "evidence":
        assert found.carried[3] == pytest.approx(1.0)
        assert found.left == pytest.approx(0.0)


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_copies_are_others(effort: str) -> None:
    found = support(says({1}, {6}), effort)
    assert found.evidence | found.others == {1, 6}
    assert len(found.evidence) == 1
    if effort != "evidence":
        assert found.left == pytest.approx(0.0), "with both hidden"
        assert max(found.carried) == pytest.approx(0.0), "none is missed alone"


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_a_chain_is_one_set(effort: str) -> None:
    found = support(says({2, 5}, partly=-4.0), effort)
    assert found.evidence == {2, 5}
    assert found.others == set()
    assert found.total == pytest.approx(1.0)


def test_few_blocks_are_read_beside_the_best_one_and_the_other_half_is_among_them() -> None:
    """Of two sentences that each give a word, in a long text."""
    many, halves = 40, (7, 31)

    def rule(keep: KeepSet) -> list[float]:
        return [GIVEN if half in keep else LOST for half in halves]

    answer = answer_of(rule, many)
    assert find_support(answer).evidence == set(halves)
    pairs = [keep for keep in cast(Ruled, answer.executor).asked if len(keep) == 2]
    assert len(pairs) <= PARTNERS


def test_the_current_value_and_not_the_obsolete_one() -> None:
    """Block 1 holds the old value, which shares the answer's first token; hiding it even helps."""

    def rule(keep: KeepSet) -> list[float]:
        first = GIVEN if keep & {1, 4} else LOST
        second = LOST if 4 not in keep else GIVEN - 0.4 * (1 in keep)
        return [first, second]

    found = support(rule, "exact")
    assert found.evidence == {4}
    assert 1 not in found.others | found.close
    assert found.carried[1] < 0


def test_hiding_that_helps_is_never_evidence() -> None:
    def rule(keep: KeepSet) -> list[float]:
        return [GIVEN if 3 in keep and 0 not in keep else GIVEN - 2.0 if 3 in keep else LOST]

    assert support(rule, "exact").evidence == {3}


def test_a_text_that_is_worth_nothing_supports_nothing() -> None:
    found = support(lambda keep: [FILLER, -1.0 - 0.05 * len(keep)])
    assert (found.evidence, found.others, found.enough) == (set(), set(), False)
    assert found.restored == (0.0,) * BLOCKS


def test_near_ties_are_marked() -> None:
    values = {0: -0.1, 1: -0.2, 2: -2.0, 3: -5.0}
    found = support(lambda keep: [max((values.get(block, LOST) for block in keep), default=LOST)])
    assert (found.evidence, found.others, found.close) == ({0}, {1}, {2})


def test_words_the_model_says_anyway_do_not_count() -> None:
    """Block 0 makes the filler much likelier, block 5 the one word the text speaks to."""

    def rule(keep: KeepSet) -> list[float]:
        return [-0.2 if keep == {0} else -0.8, GIVEN if 5 in keep else LOST, -0.2 if keep == {0} else -0.8]

    assert support(rule).evidence == {5}


def test_a_rare_name_does_not_outweigh_the_rest() -> None:
    """Block 7 gives a name of 20 nats, block 2 a word of 4 nats: the sentence needs both."""

    def rule(keep: KeepSet) -> list[float]:
        return [-0.1 if 2 in keep else -4.1, -0.1 if 7 in keep else -20.1]

    assert support(rule).evidence == {2, 7}


def test_a_name_in_pieces_is_one_word() -> None:
    """Block 7 gives a name of three tokens, block 2 two words: the words are most of what is said."""

    def rule(keep: KeepSet) -> list[float]:
        return [*[-0.1 if 7 in keep else -4.1] * 3, *[-0.1 if 2 in keep else -4.1] * 2]

    assert support(rule).evidence == {7}, "every token a word"
    answer = answer_of(rule)
    answer.words = (1, 1, 1, 2, 3)
    assert find_support(answer).evidence == {2}


def test_what_rests_on_everything_has_no_short_set() -> None:
    found = support(lambda keep: [LOST + len(keep) / BLOCKS * 5])
    assert len(found.evidence) <= MOST_BLOCKS
    assert support(lambda keep: [LOST + 5 * (len(keep) == BLOCKS)]).enough is False


def test_what_is_said_to_be_restored_is_what_decides_whether_it_is_enough() -> None:
    """Any block gives all of a long question, and six of eight give less than enough of the answer."""

    def rule(keep: KeepSet) -> list[float]:
        return [GIVEN if len(keep) == BLOCKS else LOST + 0.5 * NEARLY_ALL * (GIVEN - LOST) * bool(keep)]

    found = find_support(asked_answer(said_in(*range(BLOCKS), tokens=20), rule), slice(None), whole=False)
    assert not found.enough
    assert found.total == pytest.approx(0.5 * NEARLY_ALL), "the question's words, all there, do not add to it"


def test_parts_of_one_reply_share_their_readings() -> None:
    """The cat is grey. | The ferry leaves at noon. | and words the text has nothing to do with."""

    def rule(keep: KeepSet) -> list[float]:
        return [GIVEN if 1 in keep else LOST, FILLER, GIVEN if 6 in keep else LOST, *[FILLER] * 20]

    answer = answer_of(rule)
    found = [find_support(answer, part, whole=False) for part in (slice(0, 2), slice(2, 3), slice(3, 23))]
    assert [each.evidence for each in found] == [{1}, {6}, set()]
    asked = cast(Ruled, answer.executor)
    assert len(asked.asked) == len(set(asked.asked)) == 2 + BLOCKS
    assert asked.lengths == [23, 23, *[3] * BLOCKS], "nobody reads what comes after the last word of the text"
    assert len(answer.read([frozenset({1})])[0]) == 23, "whole when asked for whole"


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_of_two_that_say_it_the_one_that_is_asked_about_comes_first(effort: str) -> None:
    """Two meetings lasted an hour; one of them is asked about."""
    found = find_support(asked_answer(said_in(5), said_in(2, 5)), effort=cast(SupportEffort, effort))
    assert found.evidence == {5}
    assert 2 not in found.others, "it says the answer of something else"
    assert found.sufficient == {5}


@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_whom_it_is_said_of_belongs_to_it(effort: str) -> None:
    """Who the harbour master is, and where that person lives: the answer stands in the second sentence alone."""
    found = find_support(asked_answer(said_in(1), said_in(6, tokens=4)), effort=cast(SupportEffort, effort))
    assert found.evidence == {1, 6}
    assert found.enough


def test_words_that_stand_all_over_the_text_ask_for_no_block() -> None:
    """Each block says one of the question's four words; the answer stands in one that says none."""

    def asked(keep: KeepSet) -> list[float]:
        return [GIVEN if block in keep else LOST for block in range(4)]

    assert find_support(asked_answer(asked, said_in(6))).evidence == {6}


def test_a_part_of_a_longer_answer_need_not_say_what_is_asked() -> None:
    answer = asked_answer(said_in(1), lambda keep: [*said_in(6)(keep), *said_in(3)(keep)])
    found = [find_support(answer, part, whole=False) for part in (slice(0, 2), slice(2, 4))]
    assert [each.evidence for each in found] == [{6}, {3}]


def test_words_that_the_text_does_not_make_likelier_ask_for_nothing() -> None:
    found = find_support(asked_answer(lambda _: [LOST, FILLER], said_in(6)))
    assert found.evidence == {6}


def test_where_the_text_as_a_whole_puts_the_model_off_the_question_tells() -> None:
    """No token gains from everything; block 4 says it alone, and so does a block about something else."""
    answer = asked_answer(said_in(4), lambda keep: [GIVEN if keep in ({4}, {2}) else LOST])
    found = find_support(answer)
    assert found.evidence == {4}
    assert found.worth == 0


def test_two_chains_stand_in_for_each_other() -> None:
    found = support(says({0, 1}, {4, 7}, partly=-4.0), "exact")
    assert found.evidence in ({0, 1}, {4, 7})
    assert found.left == pytest.approx(1.0), "so nothing says that there are no others"


def test_grouped_clears_most_blocks_and_agrees() -> None:
    answer = answer_of(says({11}), 32)
    found = find_support(answer, effort="grouped")
    assert (found.evidence, found.carried[11]) == ({11}, pytest.approx(1.0))
    hidden = [keep for keep in cast(Ruled, answer.executor).asked if len(keep) == 31]
    assert len(hidden) < 8


def test_certified_reads_few_blocks_alone() -> None:
    answer = answer_of(says({11}), 32)
    assert find_support(answer, effort="certified").evidence == {11}
    assert len(cast(Ruled, answer.executor).asked) < 16


def test_an_unknown_effort() -> None:
    with pytest.raises(ValueError, match="effort: expected one of evidence, exact, grouped, certified, got 'fast'"):
        support(says({1}), "fast")


@given(st.sets(st.integers(0, BLOCKS - 1), min_size=1), st.sampled_from(["evidence", "exact"]))
def test_all_copies_are_found(copies: set[int], effort: str) -> None:
    found = support(says(*({block} for block in copies)), effort)
    assert found.evidence | found.others == copies


@given(st.sets(st.integers(0, BLOCKS - 1), min_size=2, max_size=4))
def test_chains_are_found_whole(chain: set[int]) -> None:
    """Each link gives a share of it."""
    step = (GIVEN - LOST) / len(chain) ** 2

    def rule(keep: KeepSet) -> list[float]:
        return [GIVEN if chain <= keep else LOST + step * len(chain & keep)]

    found = support(rule)
    assert found.evidence == chain
    assert found.total >= NEARLY_ALL


@given(st.lists(st.tuples(st.floats(-6, 0), st.floats(-6, 0)), min_size=BLOCKS, max_size=BLOCKS))
def test_a_block_has_one_part_to_play(alone: list[tuple[float, float]]) -> None:
    """Whatever blocks give of question and answer: evidence, as good, close, or none of these."""

    def of(place: int) -> Rule:
        return lambda keep: [max((alone[block][place] for block in keep), default=-6.0)]

    found = find_support(asked_answer(of(0), of(1)))
    assert len(found.evidence) + len(found.others) + len(found.close) == len(
        found.evidence | found.others | found.close
    )


def test_natural_text(smollm2: Loaded) -> None:
    """Copies, an obsolete value and a fact that stands once, read by a real model."""
    model, tokenizer = smollm2
    text = (
        "The office opens at nine. The code of the safe is 4821. Lunch is served at noon. Mr Vane runs the archive. "
        "The archive is run by Mr Vane. The code of the safe has changed and is now 7730. The roof was painted red."
    )

    def found(question: str, answer: str) -> Support:
        return find_support(Answer(text_example(tokenizer, text, question, answer), Fast(model)))

    copies = found("Who runs the archive?", "Mr Vane runs the archive.")
    assert copies.evidence | copies.others | copies.close == {3, 4}
    assert found("What is the code of the safe now?", "7730").evidence == {5}
    assert found("When is lunch served?", "at noon").evidence == {2}


def test_an_answer_that_the_whole_text_does_not_help_rests_on_the_block_that_helps_alone() -> None:
    def rule(keep: KeepSet) -> list[float]:
        return [-1.0] if keep == {2} else [-1.5] if keep == {5} else [-3.0]  # put off by everything together

    found = find_support(answer_of(rule))
    assert found.worth == 0
    assert found.evidence == {2}
    assert found.close == {5}
    assert find_support(answer_of(lambda keep: [-3.0])).evidence == set()

"""What training says about documents it held out."""

import pytest
import torch

from keepset.jobs.held_out import HeldOut, HeldOutQuestion, held_out, warnings


def question(scores: list[float], *sets: set[int]) -> HeldOutQuestion:
    evidence = torch.zeros(len(sets), len(scores), dtype=torch.bool)
    for row, blocks in zip(evidence, sets, strict=True):
        row[sorted(blocks)] = True
    return HeldOutQuestion(torch.tensor(scores), evidence)


FALLING = [float(-i) for i in range(20)]


@pytest.mark.parametrize(
    ("sets", "at_10", "at_25"),
    [
        ([{0}], True, True),
        ([{1, 4}], False, True),
        ([{19}, {1}], True, True),
        ([{4, 5}], False, False),
        ([{0}, set()], True, True),
        ([{9}, set()], False, False),
    ],
    ids=["best", "together", "either", "one of two", "padded", "padded and lost"],
)
def test_evidence_is_kept_when_a_whole_set_is(sets: list[set[int]], at_10: bool, at_25: bool) -> None:
    found = question(FALLING, *sets)
    assert (found.keeps(0.1), found.keeps(0.25)) == (at_10, at_25)


def test_every_fifth_document_is_held_out() -> None:
    assert held_out(4) == []
    assert held_out(5) == [4]
    assert held_out(24) == [4, 9, 14, 19]


def test_the_line_counts_questions_and_says_so() -> None:
    found = HeldOut(2, (question(FALLING, {0}), question(FALLING, {4}), question(FALLING, {9})))
    assert found.line() == (
        "held out: documents 2, questions 3; recall of their evidence 0.33 (0.06–0.79) with 10 % of the blocks, "
        "0.67 (0.21–0.94) with 25 % of the blocks (95 % interval over questions)"
    )


@pytest.mark.parametrize(
    ("scores", "saturate"),
    [
        ([5.0] * 8, True),
        ([5.0, 4.99, 4.98, 4.97, 4.96, -9.0], True),
        ([-5.0, -5.01, -5.02, -9.0], True),
        ([5.0, 4.99, -9.0, -9.0, -9.0, -9.0], False),
        ([5.0, -9.0, -9.0, -9.0], False),
        ([5.0], False),
    ],
)
def test_scores_that_do_not_tell_blocks_apart_are_named(scores: list[float], saturate: bool) -> None:
    said = warnings(100, HeldOut(20, (question(scores, {0}),) * 20))
    assert [line.split(":")[0] for line in said] == ["scores saturate"] * saturate


def test_few_documents_are_named() -> None:
    good = HeldOut(3, (question(FALLING, {0}),) * 3)
    (few,) = warnings(19, good)
    assert few.startswith("few documents: 19, of which 3 held out")
    (fewer,) = warnings(4, None)
    assert fewer.startswith("few documents: 4; none could be held out")
    assert warnings(20, good) == []

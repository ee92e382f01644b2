"""Words in common."""

import math

import pytest

from keepset.text.bm25 import bm25


def test_the_formula() -> None:
    scores = bm25("Who ran the pier?", ["Dr. Vane ran it.", "The pier burned; the pier is gone.", "Nothing more."])
    mean = (4 + 7 + 2) / 3

    def term(often: int, length: int) -> float:
        return math.log(1 + 2.5 / 1.5) * often * 2.5 / (often + 1.5 * (0.25 + 0.75 * length / mean))

    assert scores == pytest.approx([term(1, 4), 2 * term(2, 7), 0.0])


def test_rare_words_count_more_and_case_does_not() -> None:
    first, second = bm25("ZEBRA common", ["zebra word", "common word", "common thing", "common place"])[:2]
    assert first > second > 0
    assert bm25("anything", []) == []

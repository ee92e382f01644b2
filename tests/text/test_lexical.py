"""Words, headings and places of blocks, and what they share with a question."""

from keepset.text.lexical import (
    BUCKETS,
    KINDS,
    PLACE_NUMBERS,
    QUESTION_NUMBERS,
    Passage,
    buckets,
    is_heading,
    kind_of,
    passages,
    place_numbers,
    question_numbers,
    stemmed,
)
from keepset.text.split import split_blocks

TEXT = "# Data\n\nWe collect 1,200 tweets. They are short.\n\nResults\n\nThe model wins."


def test_every_block_knows_the_last_heading_above_it() -> None:
    found = passages(TEXT, split_blocks(TEXT, "sentence"))
    assert [(passage.text.strip(), passage.heading) for passage in found] == [
        ("# Data", ""),
        ("We collect 1,200 tweets.", "Data"),
        ("They are short.", "Data"),
        ("Results", "Data"),
        ("The model wins.", "Results"),
    ]
    assert found[0].place == 0
    assert [passage.place for passage in found] == sorted(passage.place for passage in found)


def test_headings_outside_the_blocks_count_too() -> None:
    start = TEXT.index("The model")
    (found,) = passages(TEXT, [(start, len(TEXT))])
    assert found.heading == "Results"


def test_a_heading_is_short_and_does_not_stop() -> None:
    assert is_heading("Related work")
    assert not is_heading("It works.")
    assert not is_heading("one two three four five six seven eight nine ten eleven twelve thirteen")
    assert not is_heading(" ")


def test_numbers_have_the_length_the_router_expects() -> None:
    blocks = passages(TEXT, split_blocks(TEXT, "sentence"))
    assert {len(place_numbers(passage)) for passage in blocks} == {PLACE_NUMBERS}
    rows = question_numbers("How many tweets are collected?", blocks)
    assert {len(row) for row in rows} == {QUESTION_NUMBERS}
    assert len(rows) == len(blocks)
    assert question_numbers("?", blocks)[0][4] == 0.0


def test_the_block_that_shares_most_with_the_question_has_the_largest_numbers() -> None:
    blocks = passages(TEXT, split_blocks(TEXT, "sentence"))
    rows = question_numbers("How many tweets are collected?", blocks)
    for number in (2, 4):
        assert max(range(len(rows)), key=lambda i: rows[i][number]) == 1
    assert rows[2][5] == rows[1][4]
    assert rows[0][6] == rows[1][4]


def test_words_with_the_same_beginning_are_one_and_common_words_none() -> None:
    assert stemmed("The collection collects") == ("colle", "colle")
    assert all(0 <= bucket < BUCKETS for bucket in buckets("Any words at all"))
    assert buckets("Tweets") == buckets("tweets")


def test_the_kind_of_a_question_is_what_it_begins_with() -> None:
    assert kind_of("In which year, and how many times?") == "which"
    assert kind_of("How many tweets?") == "how many"
    assert kind_of("Name it.") == ""
    assert set(KINDS) > {"who", "when"}
    assert Passage("a", "", 0.0).heading == ""

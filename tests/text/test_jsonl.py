"""Rows of JSONL files: what is read, and what is refused with which words."""

import json

import pytest

from keepset.paper.bench.models import tiny_model
from keepset.text.jsonl import Line, parse_row, row_example

GOOD = {"context": "The pier is closed.\n\nThe fort is open.", "question": "What is open?", "answer": "the fort"}


def line(row: object, number: int = 1) -> Line:
    return Line(number, json.dumps(row, ensure_ascii=False).encode() + b"\n")


def test_a_row_is_a_question_about_a_context() -> None:
    row = parse_row(line(GOOD | {"id": 7, "source": "ignored"}, number=3))
    assert (row.id, row.line, row.context, row.own_blocks) == ("7", 3, GOOD["context"], None)
    assert row.candidates == ()
    assert parse_row(line(GOOD | {"id": None, "candidates": None}, number=3)).id == "3"


def test_a_row_may_bring_its_own_blocks() -> None:
    row = parse_row(line({"blocks": ["One. Two.", "Three."], "question": "q", "answer": "a"}))
    assert row.context == "One. Two.\nThree."
    assert row.own_blocks == ((0, 10), (10, 16))
    _, tokenizer = tiny_model()
    example = row_example(row, tokenizer, "sentence")
    assert example.places == ((0, 10), (10, 16))
    assert example.block_texts == ("One. Two.\n", "Three.")


def test_blocks_stand_for_the_characters_they_name() -> None:
    _, tokenizer = tiny_model()
    row = parse_row(line(GOOD | {"context": "Ärger — ☃.\n\n日本語のテキスト。\n\nEnd 🙂."}))
    example = row_example(row, tokenizer, "paragraph")
    assert [row.context[start:stop] for start, stop in example.places] == list(example.block_texts)
    assert "".join(example.block_texts) == row.context
    for text, span in zip(example.block_texts, example.blocks, strict=True):
        assert text.strip() in tokenizer.decode(example.tokens[span.start : span.stop])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"context": "x"', "row: expected one JSON object on the line, got an error"),
        (b"[1, 2]", "row: expected an object with context, question and answer, got \\[1, 2\\]"),
        (b'{"a": NaN}', "row: expected standard JSON, got the number NaN"),
        (b'{"a": 1e999}', "Out of range float"),
        (b'{"a": "\\ud800"}', "row: expected whole characters, got half of a surrogate pair"),
        (b'{"a": "\xff"}', "row: expected UTF-8, got byte 0xff at 7"),
        (b"[" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_line_that_is_no_json_object_is_refused(raw: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_row(Line(1, raw))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"answer": None}, "answer: expected some text, got None"),
        ({"answer": " "}, "answer: expected some text, got ' '"),
        ({"question": 3}, "question: expected some text, got 3"),
        ({"context": ["x"]}, r"context: expected some text, got \['x'\]"),
        ({"context": ""}, "context: expected some text, got ''"),
        ({"blocks": ["x"]}, "row: expected either context or blocks, got both"),
        ({"candidates": "the fort"}, "candidates: expected a list of strings, got 'the fort'"),
        ({"candidates": []}, r"candidates: expected a list of strings, got \[\]"),
        ({"candidates": ["the fort", 3]}, r"candidates\[1\]: expected some text, got 3"),
        ({"id": True}, "id: expected a string or a whole number, got True"),
        ({"id": [1]}, r"id: expected a string or a whole number, got \[1\]"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_row(line(GOOD | change))


@pytest.mark.parametrize("field", ["question", "answer"])
def test_a_missing_field_is_named_with_those_there(field: str) -> None:
    row = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(ValueError, match=f"{field}: expected some text, but the row has no such field; it has context"):
        parse_row(line(row))


@pytest.mark.parametrize("blocks", [[], "x", ["x", " "], [1], {"a": 1}])
def test_blocks_are_a_list_of_texts(blocks: object) -> None:
    with pytest.raises(ValueError, match=r"^blocks"):
        parse_row(line({"blocks": blocks, "question": "q", "answer": "a"}))


def test_neither_context_nor_blocks() -> None:
    with pytest.raises(ValueError, match="expected either context or blocks, got neither"):
        parse_row(line({"question": "q", "answer": "a"}))


def test_fields_may_have_other_names() -> None:
    other = {"text": "One. Two.", "q": "Which?", "answer": "a", "question": "not this one"}
    assert parse_row(line(other), {"context": "text", "question": "q"}).question == "Which?"
    with pytest.raises(ValueError, match="question: expected some text, but the row has no such field; it has"):
        parse_row(line(GOOD), {"question": "q"})

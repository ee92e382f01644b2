"""Chat messages: instructions and the question stay, what was said before is made short."""

import pytest

from keepset.integrations.messages import compress_messages
from tests.tiny_compressor import TEXT, tiny_compressor

SYSTEM = {"role": "system", "content": "You are a clerk. Answer in one word. Never guess."}
ASKED = {"role": "user", "content": "Who ran the pier?"}


def test_the_report_is_short_and_everything_else_as_it_was() -> None:
    before = [SYSTEM, {"role": "user", "content": TEXT, "name": "archive"}, ASKED]
    after = compress_messages(before, 0.3, tiny_compressor())
    assert after[0] == SYSTEM
    assert after[2] == ASKED
    assert {key: value for key, value in after[1].items() if key != "content"} == {"role": "user", "name": "archive"}
    assert after[1]["content"] == tiny_compressor().compress(TEXT, 0.3, "Who ran the pier?").text
    assert before[1]["content"] == TEXT


def test_texts_in_pieces_and_tool_calls_stay_in_their_places() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    before = [
        {"role": "user", "content": [{"type": "text", "text": TEXT}, picture]},
        call,
        {"role": "tool", "tool_call_id": "1", "content": TEXT},
        {"role": "user", "content": [{"type": "text", "text": "Who ran the pier?"}]},
        {"role": "assistant", "content": "Well."},
    ]
    after = compress_messages(before, 0.3, tiny_compressor())
    assert after[1] == call
    assert after[0]["content"][1] == picture
    assert after[3:] == before[3:]
    kept = len(after[0]["content"][0]["text"]) + len(after[2]["content"])
    assert 0 < kept < len(TEXT)


def test_a_question_alone_stays() -> None:
    assert compress_messages([SYSTEM, ASKED], 0.3, tiny_compressor()) == [SYSTEM, ASKED]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([SYSTEM], "messages: expected one with the role 'user'"),
        ([{"role": "user", "content": " "}], "messages: expected text in the last user message"),
    ],
)
def test_without_a_question_it_is_one_clear_line(messages: list[dict[str, str]], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        compress_messages(messages, 0.3, tiny_compressor())

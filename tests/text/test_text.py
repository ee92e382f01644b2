"""Anybody's text: what is a sentence, which tokens are its, and every bad input."""

import pytest
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.text.example import TextExample, text_example, word_numbers
from keepset.text.split import split_blocks
from tests.tokenizers import CHAT, byte_tokenizer, real_tokenizer, word_tokenizer

TOKENIZERS = {"bytes": byte_tokenizer(), "words": word_tokenizer()}
PAGE = "The code for NARO is 4821. The code for BELU is 3390.\n\nThe code is now 7154. 🎉 Ünïcode?\r\nEnd"
SAYABLE = "The code for NARO is 4821. The code is 3390.\nThe code is now 7154. "
"""By the tokenizer of words."""


@pytest.fixture(params=[*TOKENIZERS, "smollm2-135m-instruct"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    if request.param in TOKENIZERS:
        return TOKENIZERS[request.param]
    return real_tokenizer(request.param)


def pieces(text: str, blocks: str | int, tokenizer: PreTrainedTokenizerBase | None = None) -> list[str]:
    return [text[start:stop] for start, stop in split_blocks(text, blocks, tokenizer)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One. ", "Two! ", "Three? ", "Four"],
        ["Dr. Vane met Mrs. Cole, e.g. at St. Ives, vs. Mr. Ives. ", "Then i.e. later."],
        ["J. R. Smith and A. Ito came. ", "They left."],
        ["It cost 3.50 or v1.2.3 dollars. ", "Cheap."],
        ['She said "Stop." ', "Then (quietly.) ", "He left."],
        ['"Why?" he asked. ', '"Now!" ', "She left."],
        ["See No. 5 and p. 12 on Jan. 3. ", "He said no. ", "Then left."],
        ["The U.S. Navy came at 5 p.m. ", "It left approx. an hour later."],
        ["Wait... what? ", "Well... ", "Fine."],
        ["taller than I. ", "He left."],
        ["1. Install it. ", "2. Run it."],
        ["one\n", "two\r\n", "three\r", "four"],
        ["one\n\n  \n", "two\r\n\r\n", "three"],
        ["東京は首都です。", "本当？", "「はい！」", "終わり"],
        ["🎉 party! ", "🎉🎉"],
        ["  led by blanks. ", "End.  \n "],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    assert pieces("".join(sentences), "sentence") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        [
            "Dr. Moe, who had built the first pier, was\nasked for another one by the\ntown merchants. ",
            "He agreed.\n",
        ],
        ["Others who helped with the lighthouse are Ida,\nMoen and Solberg of the town.\n"],
        ['The codename tells somewhat more, as the meaning of\n"testing" changes over time.\n'],
        ["It was approved for export by the Bureau of\nIndustry and Security.\n"],
        ["THIS TEXT COMES WITHOUT ANY WARRANTY AND\nWITHOUT ANY CONDITION OF ANY KIND.\n"],
        ["Boats pay twice what they paid before in May,\ni.e. until the end of the month.\n"],
        ["a. the right to moor a boat of twelve metres\n   at the northern quay;\n", "b. the right to sell fish\n"],
        ["- The quay may be used by every boat of the town\n  Skelvik.\n", "- Others pay.\n"],
        ["The first pier was built by the engineer whom\nMoe had asked, and the second one in the year\n1931.\n"],
        ["The pier belongs to the town, and so to its\npeople.\n", "When it storms,\nnobody may walk on it.\n"],
        [
            "The pier\n========\n",
            "The old pier was built in the year 1931 by the engineer Harald Moe and\nhas a length of 140 metres. ",
            "It belongs to the people of the town\nand is open.\n",
        ],
        [
            "Licence: free\n",
            "Author: Ida Moen\n",
            "Year: 1931\n",
            "This plan of the old harbour is free; you may pass it on to anybody and change\nit as you like.\n",
        ],
    ],
)
def test_lines_that_were_wrapped_are_no_sentences(sentences: list[str]) -> None:
    text = "".join(sentences)
    assert [text[start:stop] for start, stop in split_blocks(text, "sentence")] == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["The harbour\n===========\n\n", "It is old.\n\n---\n\n", "The pier\n~~~~~~~~\n"],
        ["---\nIt is old.\n"],
        ["Run it:\n", "```bash\npip install it\n", "it --help\n```\n\n", "Then stop.\n"],
        ["Run it:\n", "```\nit\n```\n\n", "```\nit again\n```\n"],
        [".. _harbour:\n", ".. note:: It is old.\n"],
        ["| pier | metres |\n|---|---|\n", "| old | 140 |\n"],
        ["He left. ", "... ", "Then [...] he came."],
    ],
)
def test_marks_are_no_sentences(sentences: list[str]) -> None:
    assert pieces("".join(sentences), "sentence") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["5. Pets. No pets are allowed. ", "Fish are no pets.\n", "6. Late rent. It costs five euros a day.\n"],
        ["(2.1) Rent is due in May. ", "1) Term. It runs for a year.\n", "§ 4 Deposit. It is two months' rent.\n"],
        ["1. Call Anna. ", "2. Pay the rent.\n", "3. Sleep.\n"],
        ["I left. ", "He came.\n", "2024 was dry. ", "It rained in 2025."],
    ],
)
def test_a_heading_on_the_line_of_its_clause_is_part_of_it(sentences: list[str]) -> None:
    assert pieces("".join(sentences), "sentence") == sentences


@pytest.mark.parametrize(
    "text",
    [
        "10:05 the ferry left the northern quay with forty\n10:35 the ferry came back with fifty people\n",
        "Opening hours of the museum in the lighthouse 9 to 17\nClosed on Monday\n",
        "milk\neggs\nbread\n",
        "the harbour office opened at eight as usual on this day\nfog\nwind from the south-west\n",
        '"harbour_master_of_the_town": "Ida Moen",\n"keeper_of_the_lighthouse": "Solberg",\n',
        "compress\nkeepset compress harbour-log-1931.txt --budget 0.25 --out short-log-1931.txt\nkeepset doctor\nend\n",
        "what     it is\npier     the old one, which is the longest of the town and of the coast\nquay     new\nend\n",
        f"{'a long line that nobody wrapped ' * 5}\nand one that begins in lower case\n",
    ],
)
def test_lines_that_end_on_purpose_are_sentences(text: str) -> None:
    assert [text[start:stop] for start, stop in split_blocks(text, "sentence")] == text.splitlines(keepends=True)


def test_words_are_letters_and_digits_in_a_row(tokenizer: PreTrainedTokenizerBase) -> None:
    tokens = tokenizer("The code is 4821.", add_special_tokens=False)["input_ids"]
    numbers = word_numbers(tokenizer, tokens)
    assert len(numbers) == len(tokens)
    said: dict[int, str] = {}
    for token, number in zip(tokens, numbers, strict=True):
        said[number] = said.get(number, "") + tokenizer.decode([token])
    assert [text.strip() for text in said.values() if text.strip()] == ["The", "code", "is", "4821", "."]


def test_other_blocks() -> None:
    text = "one. two\r\n  three\n\n\nfour\r\n\r\nfive\n"
    assert pieces(text, "line") == ["one. two\r\n", "  three\n\n\n", "four\r\n\r\n", "five\n"]
    assert pieces(text, "paragraph") == ["one. two\r\n  three\n\n\n", "four\r\n\r\n", "five\n"]
    assert pieces("  \n\n \n", "line") == []
    assert pieces("", "sentence") == []


@pytest.mark.parametrize("blocks", ["3 tokens", 3, "1 token"])
def test_blocks_of_tokens(blocks: str | int) -> None:
    tokenizer = TOKENIZERS["bytes"]
    example = text_example(tokenizer, PAGE, "What is the code?", "4821", blocks)
    width = int(str(blocks)[0])
    assert [len(span) for span in example.blocks[:4]] == [width] * 4
    assert "".join("".join(example.block_texts).split()) == "".join(PAGE.split())


@pytest.mark.parametrize("blocks", ["sentence", "paragraph", "line"])
def test_the_tokens_of_a_block_say_its_text(tokenizer: PreTrainedTokenizerBase, blocks: str) -> None:
    page = SAYABLE if tokenizer is TOKENIZERS["words"] else PAGE
    example = text_example(tokenizer, f"  {page} \n", " What is the code for NARO? ", "4821", blocks)
    assert isinstance(example, TextExample)
    assert "".join(example.block_texts) == f"  {page} \n"
    assert example.query.start == example.blocks[-1].stop
    for left, right in zip(example.blocks, example.blocks[1:], strict=False):
        assert left.stop == right.start
    for span, text in zip(example.blocks, example.block_texts, strict=True):
        said = tokenizer.decode(example.tokens[span.start : span.stop], clean_up_tokenization_spaces=False)
        assert str(said).split() == text.split()


def test_the_prompt_is_the_context_then_the_question(tokenizer: PreTrainedTokenizerBase) -> None:
    example = text_example(tokenizer, "The code is 4821.", "What is the code?", "4821")
    if tokenizer.chat_template:
        assert "user\nThe code is 4821.\n\nWhat is the code?" in example.text
        assert example.text.endswith("assistant\n")
        assert tokenizer.decode(example.answer) == "4821"
    else:
        assert example.text == "The code is 4821.\n\nQuestion: What is the code?\nAnswer:"
        assert example.tokens[0] == tokenizer.bos_token_id
        assert example.blocks[0].start == 1
        assert tokenizer(f"{example.text} 4821")["input_ids"] == [*example.tokens.tolist(), *example.answer]


@pytest.mark.parametrize("question", ["assistant", " start", "Answer", "Question"])
def test_a_question_is_not_taken_for_a_word_of_the_template(tokenizer: PreTrainedTokenizerBase, question: str) -> None:
    example = text_example(tokenizer, f"The code for {question.strip()} is 4821.", question, "4821")
    assert example.asked is not None
    before, asked, after = (
        str(tokenizer.decode(example.tokens[start:stop]))
        for start, stop in (
            (0, example.asked.start),
            (example.asked.start, example.asked.stop),
            (example.asked.stop, None),
        )
    )
    assert asked.strip() == question.strip()
    assert "4821" in before.replace(" ", "")
    assert "Answer:" in after if not tokenizer.chat_template else after.strip().endswith("assistant")


def test_a_block_of_one_token() -> None:
    tokenizer = TOKENIZERS["bytes"]
    example = text_example(tokenizer, "a\nb\nThe code", "What?", "b", blocks=[(0, 1), (2, 3)])
    assert [len(span) for span in example.blocks] == [1, 1]
    assert example.block_texts == ("a", "b")


def test_text_outside_own_spans_is_always_visible() -> None:
    tokenizer = TOKENIZERS["bytes"]
    example = text_example(tokenizer, PAGE, "What?", "b", blocks=[(3, 9), (20, 25), (26, 35)])
    assert example.block_texts == (PAGE[3:9], PAGE[20:25], PAGE[26:35])
    assert example.blocks[0].stop < example.blocks[1].start
    assert split_blocks("a  b", [(0, 1), (1, 3), (3, 4)]) == [(0, 1), (3, 4)], "blank ones are left out"


def test_an_answer_in_tokens_is_taken_as_it_is() -> None:
    assert text_example(TOKENIZERS["bytes"], "One.", "What?", [7, 8]).answer == (7, 8)


def test_candidates_hold_the_answer() -> None:
    tokenizer = TOKENIZERS["bytes"]
    example = text_example(tokenizer, "One.", "What?", " 4821 ", candidates=["3390", "4821"])
    assert example.candidates[1] == example.answer
    assert len(set(example.candidates)) == 2
    assert text_example(tokenizer, "One.", "What?", "4821").candidates == ()
    with pytest.raises(ValueError, match="candidates: expected the answer '7' among them"):
        text_example(tokenizer, "One.", "What?", "7", candidates=["3390", "4821"])


def test_a_prompt_that_ends_in_a_special_token_has_begun_the_answer() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT.replace("<|start|>assistant\n", "<|start|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>"]})
    assert tokenizer.decode(text_example(tokenizer, "One.", "What?", "4821").answer) == "4821"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context": ""}, "context: expected some text, got ''"),
        ({"context": " \r\n"}, "context: expected some text"),
        ({"question": " \n"}, "question: expected some text"),
        ({"answer": " "}, "answer: expected some text, got ' '"),
        ({"answer": []}, "answer: expected at least one token, got none"),
        ({"blocks": "word"}, "blocks: expected 'sentence', 'paragraph', 'line', a number of tokens .* got 'word'"),
        ({"blocks": "0 tokens"}, "blocks: expected 'sentence'"),
        ({"blocks": -3}, "blocks: expected 'sentence'"),
        ({"blocks": [(0, 3), (2, 4)]}, r"do not overlap, got \(2, 4\) for block 1 after one that ends at 3"),
        ({"blocks": [(5, 8), (0, 2)]}, "expected spans in order"),
        ({"blocks": [(0, 99)]}, r"stop <= 17 \(the characters of the context\), got \(0, 99\) for block 0"),
        ({"blocks": [(3, 3)]}, "expected spans with 0 <= start < stop"),
        ({"blocks": []}, "blocks: expected at least one span with text in it, got none"),
        ({"blocks": [(0, 1)]}, "block 0: expected at least one token of its own, got none for 'T'; join it"),
    ],
)
def test_bad_input(arguments: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"context": "The code is 4821.", "question": "What?", "answer": "4821"}
    with pytest.raises(ValueError, match=message):
        text_example(TOKENIZERS["bytes"], **(good | arguments))  # type: ignore[arg-type]


def test_counting_tokens_needs_the_tokenizer() -> None:
    with pytest.raises(ValueError, match="counts tokens; pass the tokenizer"):
        split_blocks("One.", 8)


def test_an_answer_that_merges_with_the_prompt_is_refused() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT.replace("<|start|>assistant\n", "\nAnswer\n")
    example = text_example(tokenizer, "One.", "What?", "4821")
    assert example.query == Span(example.blocks[-1].stop, len(example.tokens))
    tokenizer.chat_template = CHAT.replace("<|start|>assistant\n", "What ")
    with pytest.raises(ValueError, match="to be tokens of its own after the prompt; it merges with it"):
        text_example(tokenizer, "One.", "What?", "is the code")


def test_ten_thousand_sentences_are_cut_quickly() -> None:
    example = text_example(TOKENIZERS["bytes"], "The code is 4821. " * 10_000, "What?", "4821")
    assert len(example.blocks) == 10_000

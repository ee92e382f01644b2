"""Cut before the question, the tokens are those of the prompt that has both."""

import copy

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.pruning.prompt import lay_out, question_tokens
from keepset.text.example import text_example

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
QUESTION = "What is the code for NARO3?"


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("blocks", ["sentence", "paragraph", 16])
def test_document_and_question_are_the_tokens_of_an_example(
    loaded: Loaded, document: str, chat: bool, blocks: str | int
) -> None:
    tokenizer = copy.deepcopy(loaded[1])
    if not chat:
        tokenizer.chat_template = None
    padded = f"  \n{document}\n "
    example = text_example(tokenizer, padded, QUESTION, "1", blocks)
    prompt = lay_out(tokenizer, padded, blocks)
    asked = question_tokens(tokenizer, f" {QUESTION} ")
    assert [*prompt.tokens.tolist(), *asked.tolist()] == example.tokens.tolist()
    assert prompt.blocks == example.blocks
    assert [padded[start:stop] for start, stop in prompt.places] == list(example.block_texts)


def test_blocks_of_fixed_width_have_that_width(loaded: Loaded, document: str) -> None:
    prompt = lay_out(loaded[1], document, 16)
    assert {len(span) for span in prompt.blocks[:-1]} == {16}
    assert len(lay_out(loaded[1], document, 4_096).blocks) == 1


def test_own_spans_leave_the_rest_outside(loaded: Loaded, document: str) -> None:
    prompt = lay_out(loaded[1], document, [(28, 56), (56, 84)])
    assert len(prompt.blocks) == 2
    assert prompt.blocks[0].start > len(loaded[1]("<|start|>user\n").input_ids)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_nothing_is_refused(loaded: Loaded, empty: str) -> None:
    with pytest.raises(ValueError, match="document: expected some text"):
        lay_out(loaded[1], empty, 16)
    with pytest.raises(ValueError, match="question: expected some text"):
        question_tokens(loaded[1], empty)
    with pytest.raises(ValueError, match="blocks: expected at least one span"):
        lay_out(loaded[1], "a  b", [(1, 2)])

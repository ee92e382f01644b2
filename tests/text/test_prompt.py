"""The tokens of the prompt, cut anywhere, are those of the chat template tokenised as a whole; on real tokenizers."""

import copy

import pytest
from transformers import PreTrainedTokenizerBase

from keepset.text.example import text_example
from keepset.text.long_context import sample_documents
from keepset.text.prompt import common_length, document_tokens, lay_out, prompt_tokens
from tests.tokenizers import byte_tokenizer, real_tokenizer

BUNDLED = ("smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct", "gemma-3-270m")
DOCUMENTS = (
    "The pier was rebuilt in 1931.",
    "The pier was rebuilt in 1931.\n",
    "The pier was rebuilt in 1931\n\n\n",
    "- one\n- two\n",
    "Line one.\r\nLine two.\r\n",
    "\n\n  led by blanks, ended by them  ",
    'He said "no"',
    "def f():\n    return 1\n",
    "東京は首都です。",
    "a 🎉",
    "x",
)
QUESTIONS = (
    "Who ran the pier?",
    "1931 was when?",
    '"Who" ran it?',
    " Who ran it?",
    "\n\nWho ran it?\n",
    "\tWho?",
    "(who?)",
    "?",
    "...",
    "'s",
    "élan?",
    "東京は?",
    "🎉",
    "\u00a0who",
)


@pytest.fixture(params=BUNDLED)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    return real_tokenizer(request.param)


def whole(tokenizer: PreTrainedTokenizerBase, document: str, question: str) -> list[int]:
    """What anybody else gives the model."""
    if not tokenizer.chat_template:
        ids: list[int] = tokenizer(f"{document}\n\nQuestion: {question}\nAnswer:")["input_ids"]
        return ids
    message = {"role": "user", "content": f"{document}\n\n{question}"}
    chat = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=True)
    return list(chat["input_ids"])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_read_before_its_question_begins_the_whole_prompt(
    tokenizer: PreTrainedTokenizerBase, document: str
) -> None:
    before = document_tokens(tokenizer, document)
    for question in QUESTIONS:
        expected = whole(tokenizer, document, question)
        assert prompt_tokens(tokenizer, document, question) == expected
        assert common_length(before, expected) == len(before), question


@pytest.mark.parametrize("document", DOCUMENTS)
def test_training_and_pruning_cut_at_the_same_token(tokenizer: PreTrainedTokenizerBase, document: str) -> None:
    pruned = lay_out(tokenizer, document, "line")
    for question in QUESTIONS[:4]:
        example = text_example(tokenizer, document, question, [1], "line")
        assert example.tokens.tolist() == whole(tokenizer, document, question)
        assert example.tokens[: example.query.start].tolist() == pruned.tokens.tolist()
        assert (example.blocks, example.places) == (pruned.blocks, pruned.places)


@pytest.mark.parametrize("task", ["multikey", "register_log"])
def test_documents_that_are_made_up_are_whole_prompts_too(tokenizer: PreTrainedTokenizerBase, task: str) -> None:
    for document in sample_documents(task, tokenizer, seed=5, length=256, n=2):
        for question in document.questions:
            special = not tokenizer.chat_template
            assert tokenizer(question.text, add_special_tokens=special)["input_ids"] == question.tokens.tolist()
            assert question.tokens[: question.query.start].tolist() == document.tokens.tolist()


def test_a_last_block_that_merges_with_what_follows_joins_the_one_before() -> None:
    tokenizer = real_tokenizer("qwen2.5-coder-1.5b-instruct")  # writes a full stop and a blank line as one token
    document = "The pier was rebuilt in 1931."
    width = len(tokenizer(document)["input_ids"]) - 1
    prompt = lay_out(tokenizer, document, width)
    assert prompt.places == ((0, len(document)),)
    assert [len(span) for span in prompt.blocks] == [width]
    with pytest.raises(ValueError, match=r"block 0: expected at least one token of its own, got none for '\.'"):
        lay_out(tokenizer, ".", "line")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('a system message\ncomes first') }}", "got: a system message comes first; set"),
        ("{% for m in messages %}", "got: Unexpected end of template"),
        ("{{ messages[1]['content'] }}", "has no element 1"),
    ],
)
def test_a_template_that_fails_is_one_clear_line(template: str, said: str) -> None:
    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match="tokenizer: expected a chat template that takes a user's message") as caught:
        lay_out(tokenizer, "The code is 4821.", "line", "Who?")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_template_that_trims_the_message() -> None:
    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.chat_template = str(tokenizer.chat_template).replace("m['content']", "m['content'] | trim")
    document = " \n The code is 4821. \n"
    for question in QUESTIONS:
        expected = whole(tokenizer, document, question)
        assert prompt_tokens(tokenizer, document, question) == expected
    prompt = lay_out(tokenizer, document, "line", "Who? ")
    span = prompt.blocks[0]
    assert str(tokenizer.decode(prompt.tokens[span.start : span.stop])).strip() == document.strip()

"""The prompt a model reads, token for token, and where the document in it ends and the question begins.

    prefix      <|im_start|>user                                (a chat template's beginning, when there is one)
    document    The pier was rebuilt in 1931. ...
    ------------------------------------------------------------ the cut
    separator   a blank line
    question    Who ran the pier? <|im_end|> <|im_start|>assistant

A document is read before its question exists, but a tokenizer writes the white space between them, and sometimes the
last mark of the document, in one go with what follows: "." and a blank line are one token of Qwen, and a blank line is
one token of SmolLM2 before a space, two before a letter. So the cut is not at the last character of the document but
after the last token that no question changes; the rest is written together with the question. Both together are always
the tokens of the whole prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.terminal import one_line
from keepset.text.split import Blocks, split_blocks

SEPARATOR = "\n\n"
LEAD = "Question: "
"""Before the question, where there is no chat template."""
PROBES = ("a", "A", "1", '"', ".", "(", " a", "\ta", "\na", "é", "東")
"""Beginnings of questions, one of each kind that tokenizers tell apart."""

Characters = tuple[int, int]
"""First, and one after the last."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A document cut into blocks, and the question after it when there is one."""

    text: str
    """All of it, without a leading token the tokenizer adds by itself."""
    tokens: Tensor
    """(T,) up to the cut: what can be read before the question is known."""
    question: Tensor
    """(Q,) after the cut; empty before the question is known."""
    blocks: tuple[Span, ...]
    """Token spans of the blocks; everything outside them is always visible."""
    places: tuple[Characters, ...]
    """The blocks in the characters of the document."""
    asked_at: int
    """Where in ``text`` the question begins: its words may stand in the document and in a template too."""


def lay_out(tokenizer: PreTrainedTokenizerBase, document: str, blocks: Blocks, question: str | None = None) -> Prompt:
    """The document and the question, in the tokenizer's chat template when it has one.

    What a last block has after the cut is always visible; when that is all of it, it joins the block before it.
    """
    check_tokenizer(tokenizer)
    check_text("document", document)
    places = split_blocks(document, blocks, tokenizer)
    if not places:
        raise ValueError(f"blocks: expected at least one span with text in it, got none in {short(document)}")
    text, start = prompt_text(tokenizer, document, PROBES[0] if question is None else question)
    tokens, offsets = encode(tokenizer, text)
    cut = common_length(document_tokens(tokenizer, document), tokens)
    blank = len(document) - len(document.lstrip())  # some templates trim it
    spans = token_spans(offsets, [(start + max(begin, blank), start + stop) for begin, stop in places], cut)
    while len(spans) > 1 and not len(spans[-1]) and places[-2][1] == places[-1][0]:
        places[-2:] = [(places[-2][0], places[-1][1])]
        spans.pop()
    _check_spans(spans, [document[begin:stop] for begin, stop in places])
    asked = [] if question is None else tokens[cut:]
    return Prompt(
        text=text,
        tokens=torch.tensor(tokens[:cut]),
        question=torch.tensor(asked, dtype=torch.long),
        blocks=tuple(spans),
        places=tuple(places),
        asked_at=start + len(document) + len(SEPARATOR) + len("" if tokenizer.chat_template else LEAD),
    )


def prompt_text(tokenizer: PreTrainedTokenizerBase, document: str, question: str) -> tuple[str, int]:
    """Everything up to the answer, and where the document starts."""
    said = user_message(document, question)
    if tokenizer.chat_template:
        return chat_prompt(tokenizer, said)
    return f"{document}{SEPARATOR}{LEAD}{question}\nAnswer:", 0


def user_message(document: str, question: str) -> str:
    """What a user says: the document, a blank line, the question."""
    check_text("question", question)
    return f"{document}{SEPARATOR}{question}"


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, document: str, question: str) -> list[int]:
    """The whole prompt: what a model is given when nothing is dropped."""
    return encode(tokenizer, prompt_text(tokenizer, document, question)[0])[0]


def document_tokens(tokenizer: PreTrainedTokenizerBase, document: str) -> list[int]:
    """The tokens before the cut: those of the prefix and the document that no question changes."""
    text, start = prompt_text(tokenizer, document, PROBES[0])
    inside = np.searchsorted(_last_characters(encode(tokenizer, text)[1]), start + len(document))
    return unchanging_tokens(tokenizer, lambda question: prompt_text(tokenizer, document, question)[0])[:inside]


def unchanging_tokens(tokenizer: PreTrainedTokenizerBase, write: Callable[[str], str]) -> list[int]:
    """With how many tokens, and which, ``write`` (question -> prompt) begins whatever is asked."""
    texts = [write(probe) for probe in PROBES]
    written = tokenizer(texts, add_special_tokens=not tokenizer.chat_template, verbose=False)["input_ids"]
    shared: list[int] = written[0]
    for other in written[1:]:
        shared = shared[: common_length(shared, other)]
    return shared


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """How many tokens, or other pieces, both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def chat_prompt(tokenizer: PreTrainedTokenizerBase, content: str) -> tuple[str, int]:
    """The user's message in the chat template, up to where the model begins to answer; and where ``content`` starts.

    Templates may trim the message.
    """
    messages = [{"role": "user", "content": content}]
    try:
        chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is somebody's program, and fails in any way
        raise ValueError(
            f"tokenizer: expected a chat template that takes a user's message alone, got: {one_line(str(error))}; "
            "set tokenizer.chat_template to another one, or to None"
        ) from error
    assert isinstance(chat, str)
    said = content.strip()
    if chat.count(said) != 1:
        raise ValueError("tokenizer: expected its chat template to contain the user's message once, unchanged")
    return chat, chat.index(said) - content.index(said)


def check_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Blocks are found by the characters a token stands for."""
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ValueError(f"tokenizer: expected the one load_model gives with the model, got {type(tokenizer).__name__}")
    if not tokenizer.is_fast:
        raise ValueError(f"tokenizer: expected a fast one (it gives offsets), got {type(tokenizer).__name__}")


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[Characters]]:
    """Token ids and the characters each stands for. A chat template writes its own special tokens."""
    encoded = tokenizer(
        text, add_special_tokens=not tokenizer.chat_template, return_offsets_mapping=True, verbose=False
    )
    return encoded["input_ids"], encoded["offset_mapping"]


def tokenise(
    tokenizer: PreTrainedTokenizerBase, text: str, places: Sequence[Characters]
) -> tuple[list[int], tuple[Span, ...]]:
    """Token ids of ``text``, and the tokens at each of ``places`` (characters, in order)."""
    tokens, offsets = encode(tokenizer, text)
    spans = token_spans(offsets, places, len(tokens))
    _check_spans(spans, [text[start:stop] for start, stop in places])
    return tokens, tuple(spans)


def continuation(tokenizer: PreTrainedTokenizerBase, text: str, tokens: list[int], answer: str) -> tuple[int, ...]:
    """The tokens of ``answer`` as they come after the prompt."""
    whole, _ = encode(tokenizer, text + answer)
    if whole == tokens:
        raise ValueError(f"answer: expected at least one token, got none for {short(answer)}")
    if whole[: len(tokens)] != tokens:
        raise ValueError(
            f"tokenizer: expected {short(answer)} to be tokens of its own after the prompt; it merges with it"
        )
    return tuple(whole[len(tokens) :])


def check_text(name: str, value: object) -> None:
    """Some text, all of it characters."""
    check_characters(name, value)
    if not str(value).strip():
        raise ValueError(f"{name}: expected some text, got {short(str(value))}")


def check_characters(name: str, value: object) -> None:
    """Text, maybe none: what a shell passes on that is not UTF-8 comes as halves of surrogate pairs."""
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected some text, got {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got bytes that are not: {short(value)}") from error


def short(value: object) -> str:
    """A text or another value for an error message."""
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:57]}..."


def token_spans(offsets: Sequence[Characters], places: Sequence[Characters], cut: int) -> list[Span]:
    """The tokens before ``cut`` at each of ``places``.

    A token belongs where its last character is: many vocabularies write a space as the beginning of the next word.
    """
    starts, stops = np.searchsorted(_last_characters(offsets), np.array(places).T).clip(max=cut)  # (N), (N)
    return [Span(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]


def _last_characters(offsets: Sequence[Characters]) -> NDArray[np.int64]:
    """(T,) of every token."""
    # A token without text of its own (a part of a character, a leading <bos>) stands where the one before it does.
    return np.maximum.accumulate(np.array([stop - 1 for _, stop in offsets]))


def _check_spans(spans: Sequence[Span], texts: Sequence[str]) -> None:
    for i, (span, said) in enumerate(zip(spans, texts, strict=True)):
        if len(span) == 0:
            raise ValueError(
                f"block {i}: expected at least one token of its own, got none for {short(said)}; "
                "join it with the block beside it"
            )

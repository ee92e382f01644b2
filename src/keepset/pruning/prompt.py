"""A document as tokens before anybody has asked, and a question as the tokens that follow.

    prefix      <|im_start|>user                                (a chat template's beginning, when there is one)
    blocks      The pier was rebuilt in 1931. ...
    separator   a blank line                                     \\ kept with the prefix
    ---------------------------------------------------------------------------
    question    Who ran the pier? <|im_end|> <|im_start|>assistant

The same tokens as ``text_example`` makes of both, cut where the question starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.text.example import chat_prompt, check_tokenizer, split_blocks, tokenise

SEPARATOR = "\n\n"
PLACEHOLDER = "?"
"""Stands for a question that nobody has asked yet."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """Everything before the question."""

    tokens: Tensor
    """(T,) prefix, blocks, separator."""
    blocks: tuple[Span, ...]
    """Token spans of the blocks; everything outside them is always kept."""
    places: tuple[tuple[int, int], ...]
    """Character spans of the blocks in the document."""


def lay_out(tokenizer: PreTrainedTokenizerBase, document: str, blocks: str | int | Sequence[tuple[int, int]]) -> Prompt:
    """The document cut into blocks, in the tokenizer's chat template when it has one."""
    check_tokenizer(tokenizer)
    if not document.strip():
        raise ValueError(f"document: expected some text, got {document!r}")
    places = split_blocks(document, blocks, tokenizer)
    if not places:
        raise ValueError("blocks: expected at least one span with text in it, got none")
    first, end = len(document) - len(document.lstrip()), len(document.rstrip())  # templates trim a message
    text, start = document.strip() + SEPARATOR, 0
    if tokenizer.chat_template:
        chat, start = chat_prompt(tokenizer, text + PLACEHOLDER)
        text = chat[: start + len(text)]
    inside = [(start + max(begin - first, 0), start + min(stop, end) - first) for begin, stop in places]
    tokens, found = tokenise(tokenizer, text, inside)
    return Prompt(torch.tensor(tokens), found, tuple(places))


def question_tokens(tokenizer: PreTrainedTokenizerBase, question: str) -> Tensor:
    """(Q,) what follows the document, up to where the answer starts."""
    if not question.strip():
        raise ValueError(f"question: expected some text, got {question!r}")
    if tokenizer.chat_template:
        chat, start = chat_prompt(tokenizer, PLACEHOLDER)
        text = question.strip() + chat[start + len(PLACEHOLDER) :]
    else:
        text = f"Question: {question.strip()}\nAnswer:"
    # After the separator, because some tokenizers write the beginning of a text differently.
    encoded = tokenizer(SEPARATOR + text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    last = np.maximum.accumulate([stop - 1 for _, stop in encoded["offset_mapping"]])
    return torch.tensor(encoded["input_ids"])[torch.from_numpy(last >= len(SEPARATOR))]

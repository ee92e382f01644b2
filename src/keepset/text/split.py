"""Anybody's text as an example: a context cut into blocks, then a question.

prefix     <|im_start|>user                            (a chat template's beginning, when there is one)
block 0    The pier was rebuilt in 1931.
block 1    Dr. Vane ran it until the war.
query      Who ran the pier? <|im_end|> <|im_start|>assistant
answer     Dr. Vane
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Example, Span

BREAK = r"(?>\r\n|[\n\r\u2028\u2029])"
LINE = re.compile(rf"(?:[^\S\n\r\u2028\u2029]*{BREAK})+")
PARAGRAPH = re.compile(rf"{BREAK}(?:[^\S\n\r\u2028\u2029]*{BREAK})+")
CLOSING = "[\"'”’»)\\]]*"
STOP = re.compile(rf"[.!?…]+({CLOSING})\s+|[。！？]+[”’」』）]*\s*|{LINE.pattern}")
"""Where a sentence may end, with the white space after it."""

NEVER_LAST = re.compile(
    r"dr|mr|mrs|ms|mx|prof|st|mt|ft|gen|col|capt|cmdr|lt|sgt|rev|hon|sen|rep|gov|pres|messrs"
    r"|vs|e\.g|i\.e|cf|ca|approx|viz|incl|resp",
    re.IGNORECASE,
)
"""Abbreviations that stand before what they belong to."""
BEFORE_A_NUMBER = re.compile(
    r"nos?|pp?|figs?|eqs?|sec|ch|vol|art|para|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec", re.IGNORECASE
)
"""Abbreviations only when a number follows; otherwise words that may end a sentence."""
WIDTH = re.compile(r"(\d+) tokens?")
WAYS = "'sentence', 'paragraph', 'line', a number of tokens such as '128 tokens', or (start, stop) character spans"


@dataclass(frozen=True, kw_only=True)
class TextExample(Example):
    """An example with its text."""

    text: str
    """The whole prompt: what ``tokens`` says, without a leading token the tokenizer adds by itself."""
    block_texts: tuple[str, ...]
    """What each block says, with the white space after it."""
    candidates: tuple[tuple[int, ...], ...] = ()
    """Token ids of the answers to choose from, the gold one among them; empty when none were given."""


def text_example(
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | Sequence[int],
    blocks: str | int | Sequence[tuple[int, int]] = "sentence",
    candidates: Sequence[str] | None = None,
) -> TextExample:
    """The context, then the question, as one prompt: in the tokenizer's chat template when it has one.

    ``answer`` is a text, or the token ids a model wrote. Text outside the caller's own spans is always visible.
    """
    check_tokenizer(tokenizer)
    if not question.strip():
        raise ValueError(f"question: expected some text, got {question!r}")
    spans = split_blocks(context, blocks, tokenizer)
    if not spans:
        raise ValueError(f"context: expected some text to hide, got {_short(context)}")
    text, start = _prompt(tokenizer, context.strip(), question.strip())
    first, end = len(context) - len(context.lstrip()), len(context.rstrip())  # templates trim a message
    places = [(start + max(begin - first, 0), start + min(stop, end) - first) for begin, stop in spans]
    tokens, found = tokenise(tokenizer, text, places)
    written = [_answer(tokenizer, text, tokens, candidate) for candidate in candidates or ()]
    gold = _answer(tokenizer, text, tokens, answer) if isinstance(answer, str) else tuple(answer)
    if candidates is not None and gold not in written:
        raise ValueError(f"candidates: expected the answer {answer!r} among them, got {list(candidates)}")
    return TextExample(
        tokens=torch.tensor(tokens),
        blocks=found,
        query=Span(found[-1].stop, len(tokens)),
        answer=gold,
        text=text,
        block_texts=tuple(context[begin:stop] for begin, stop in spans),
        candidates=tuple(written),
    )


def split_blocks(
    text: str, blocks: str | int | Sequence[tuple[int, int]], tokenizer: PreTrainedTokenizerBase | None = None
) -> list[tuple[int, int]]:
    """Character spans of the blocks of ``text``, blank ones left out. White space belongs to the block before it."""
    if not isinstance(blocks, str | int):
        spans = [(int(start), int(stop)) for start, stop in blocks]
        _check_own_spans(spans, len(text))
    else:
        edges = sorted({0, len(text), *_cuts(text, blocks, tokenizer)})
        spans = list(pairwise(edges))
    return [(start, stop) for start, stop in spans if text[start:stop].strip()]


def _cuts(text: str, blocks: str | int, tokenizer: PreTrainedTokenizerBase | None) -> list[int]:
    """Where one block ends and the next begins."""
    if blocks == "sentence":
        return _sentence_cuts(text)
    if blocks in ("paragraph", "line"):
        return [found.end() for found in (PARAGRAPH if blocks == "paragraph" else LINE).finditer(text)]
    width = WIDTH.fullmatch(str(blocks)) or re.fullmatch(r"(\d+)", str(blocks))
    if width is None or int(width[1]) < 1:
        raise ValueError(f"blocks: expected {WAYS}, got {blocks!r}")
    if tokenizer is None:
        raise ValueError(f"blocks: {blocks!r} counts tokens; pass the tokenizer")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [begin for begin, _ in encoded["offset_mapping"][:: int(width[1])]]


def _sentence_cuts(text: str) -> list[int]:
    cuts = [0]
    for found in STOP.finditer(text):
        if _ends_sentence(text[cuts[-1] : found.start()], found, text[found.end() : found.end() + 1]):
            cuts.append(found.end())
    return cuts


def _ends_sentence(before: str, stop: re.Match[str], following: str) -> bool:
    """``before`` is the sentence up to the stop, ``following`` the first character after it."""
    written = stop[0].rstrip()
    if re.search(BREAK, stop[0]) or written[:1] in "。！？":
        return True
    if following.islower() and (written[0] in ".…" or stop[1]):  # "approx. five"; "Why?" he asked.
        return False
    return written[0] != "." or written.startswith("..") or not _is_abbreviation(before, following)


def _is_abbreviation(before: str, following: str) -> bool:
    """Whether the full stop after ``before`` belongs to its last word."""
    word = re.split(r"[\s(\[\"'“‘«]", before)[-1]
    if NEVER_LAST.fullmatch(word) or (following.isdigit() and BEFORE_A_NUMBER.fullmatch(word)):
        return True
    if re.fullmatch(r"[^\W\d_]", word):  # an initial; "than I." is a sentence
        return word.isupper() and word != "I"
    if re.fullmatch(r"(?:[A-Z]\.)+[A-Z]", word):  # U.S.
        return True
    return word.isdigit() and before.strip() == word  # "2." before an item of a list


def check_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Blocks are found by the characters a token stands for."""
    if not tokenizer.is_fast:
        raise ValueError(f"tokenizer: expected a fast one (it gives offsets), got {type(tokenizer).__name__}")


def chat_prompt(tokenizer: PreTrainedTokenizerBase, content: str) -> tuple[str, int]:
    """The user's message in the chat template, up to where the model begins to answer; and where ``content`` starts."""
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    assert isinstance(chat, str)
    if chat.count(content) != 1:
        raise ValueError("tokenizer: expected its chat template to contain the user's message once, unchanged")
    return chat, chat.index(content)


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Token ids and the characters each stands for. A chat template writes its own special tokens."""
    encoded = tokenizer(
        text, add_special_tokens=not tokenizer.chat_template, return_offsets_mapping=True, verbose=False
    )
    return encoded["input_ids"], encoded["offset_mapping"]


def tokenise(
    tokenizer: PreTrainedTokenizerBase, text: str, places: Sequence[tuple[int, int]]
) -> tuple[list[int], tuple[Span, ...]]:
    """Token ids of ``text``, and the tokens at each of ``places`` (characters, in order).

    A token belongs where its last character is: many vocabularies write a space as the beginning of the next word.
    """
    tokens, offsets = encode(tokenizer, text)
    # A token without text of its own (a part of a character, a leading <bos>) stands where the one before it does.
    last = np.maximum.accumulate([stop - 1 for _, stop in offsets])  # (T)
    starts, stops = np.searchsorted(last, np.array(places).T)  # (N), (N)
    blocks = tuple(Span(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True))
    for i, (block, (start, stop)) in enumerate(zip(blocks, places, strict=True)):
        if len(block) == 0:
            raise ValueError(
                f"block {i}: expected at least one token of its own, got none for {_short(text[start:stop])}; "
                "join it with the block after it"
            )
    return tokens, blocks


def continuation(tokenizer: PreTrainedTokenizerBase, text: str, tokens: list[int], answer: str) -> tuple[int, ...]:
    """The tokens of ``answer`` as they come after the prompt."""
    whole, _ = encode(tokenizer, text + answer)
    if whole == tokens:
        raise ValueError(f"answer: expected at least one token, got none for {_short(answer)}")
    if whole[: len(tokens)] != tokens:
        raise ValueError(
            f"tokenizer: expected {_short(answer)} to be tokens of its own after the prompt; it merges with it"
        )
    return tuple(whole[len(tokens) :])


def _prompt(tokenizer: PreTrainedTokenizerBase, context: str, question: str) -> tuple[str, int]:
    """Everything up to the answer, and where the context starts."""
    if tokenizer.chat_template:
        return chat_prompt(tokenizer, f"{context}\n\n{question}")
    return f"{context}\n\nQuestion: {question}\nAnswer:", 0


def _answer(tokenizer: PreTrainedTokenizerBase, text: str, tokens: list[int], answer: str) -> tuple[int, ...]:
    """The answer starts where the model would start it: after a space, unless the prompt has just begun something."""
    if not answer.strip():
        raise ValueError(f"answer: expected some text, got {answer!r}")
    begun = text[-1].isspace() or tokens[-1] in tokenizer.all_special_ids
    return continuation(tokenizer, text, tokens, answer.strip() if begun else f" {answer.strip()}")


def _check_own_spans(spans: Sequence[tuple[int, int]], length: int) -> None:
    previous = 0
    for i, (start, stop) in enumerate(spans):
        if not 0 <= start < stop <= length:
            raise ValueError(
                f"blocks: expected spans with 0 <= start < stop <= {length} (the characters of the context), "
                f"got ({start}, {stop}) for block {i}"
            )
        if start < previous:
            raise ValueError(
                f"blocks: expected spans in order that do not overlap, got ({start}, {stop}) for block {i} "
                f"after one that ends at {previous}"
            )
        previous = stop


def _short(text: str) -> str:
    """A text for an error message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

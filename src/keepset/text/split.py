"""A text cut into blocks: sentences, paragraphs, lines, a number of tokens, or the caller's own spans."""

import re
from collections.abc import Sequence
from itertools import pairwise

from transformers import PreTrainedTokenizerBase

from keepset.text.wrapped import BREAK, wraps

Blocks = str | int | Sequence[tuple[int, int]]
"""How to cut: see ``WAYS``."""

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
MARKS = re.compile(r"^[^\S\n\r]*[!-/:-@\[-`{-~]+[^\S\n\r]*$", re.MULTILINE)
"""A line of marks alone: under a heading, between two parts, at the end of a piece of code."""
FENCE = re.compile(r"\s*(?:```|~~~)[^\S\n\r]*[\w+-]*\s*")
"""A line that begins or ends a piece of code."""
NUMBER = r"(?:§\s*\d+(?:\.\d+)*\.?|(?:\d{1,3}(?:\.\d+)*|[a-z]|[ivx]+|[IVX]+)[.)])"
HEADING = re.compile(rf"\s*{NUMBER}\s+[^\W\d_]\S*(?:\s+\S+){{0,3}}")
"""A number and a few words: with text after it on the same line, the heading of a clause."""
WIDTH = re.compile(r"(\d+)(?: tokens?)?")
WAYS = "'sentence', 'paragraph', 'line', a number of tokens such as '128 tokens', or (start, stop) character spans"


def split_blocks(text: str, blocks: Blocks, tokenizer: PreTrainedTokenizerBase | None = None) -> list[tuple[int, int]]:
    """Character spans of the blocks of ``text``, blank ones left out. White space belongs to the block before it."""
    if not isinstance(blocks, str | int):
        try:
            spans = [(int(start), int(stop)) for start, stop in blocks]
        except TypeError as error:
            raise ValueError(f"blocks: expected {WAYS}, got {blocks!r}") from error
        _check_own_spans(spans, len(text))
    else:
        edges = sorted({0, len(text), *_cuts(text, blocks, tokenizer)})
        spans = list(pairwise(edges))
    return [(start, stop) for start, stop in spans if text[start:stop].strip()]


def _cuts(text: str, blocks: str | int, tokenizer: PreTrainedTokenizerBase | None) -> list[int]:
    """Where one block ends and the next begins."""
    if blocks == "sentence":
        return _with_words(text, _sentence_cuts(text))
    if blocks in ("paragraph", "line"):
        return [found.end() for found in (PARAGRAPH if blocks == "paragraph" else LINE).finditer(text)]
    check_way(blocks)
    if tokenizer is None:
        raise ValueError(f"blocks: {blocks!r} counts tokens; pass the tokenizer")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [begin for begin, _ in encoded["offset_mapping"][:: find_width(blocks)]]


def check_way(blocks: str | int) -> None:
    """A way to cut that has a name, or a number of tokens."""
    if blocks not in ("sentence", "paragraph", "line") and find_width(blocks) is None:
        raise ValueError(f"blocks: expected {WAYS}, got {blocks!r}")


def find_width(blocks: str | int) -> int | None:
    """``128``, ``"128"`` and ``"128 tokens"``; None for what is no number of tokens."""
    found = WIDTH.fullmatch(str(blocks))
    return int(found[1]) or None if found else None


def _sentence_cuts(text: str) -> list[int]:
    cuts = [0]
    soft = wraps(text)
    for found in STOP.finditer(text):
        broken = re.search(BREAK, found[0])
        if broken is None or found.start() + broken.start() in soft:
            before, following = text[cuts[-1] : found.start()], text[found.end() : found.end() + 1]
            if not found[0].strip() or not _ends_sentence(before, found, following):
                continue
        cuts.append(found.end())
    return cuts


def _with_words(text: str, cuts: list[int]) -> list[int]:
    """Without the cuts that would leave marks alone: they belong to what stands before them, those that begin the text
    or a piece of code to what comes next."""
    found, begins, code = [0], True, False
    for start, stop in pairwise([*cuts, len(text)]):
        said = text[start:stop]
        fence, line = FENCE.fullmatch(said) is not None, MARKS.match(text, start)
        marks = line is not None and not text[line.end() : stop].strip()
        code ^= fence
        if not begins and ((fence and code) or not marks):
            found.append(start)
        begins = (fence and code) or (begins and marks)
    return found


def _ends_sentence(before: str, stop: re.Match[str], following: str) -> bool:
    """``before`` is the sentence up to the stop, ``following`` the first character after it."""
    written = stop[0].rstrip()
    if written[:1] in "。！？":
        return True
    if written == ".." and not before.strip():  # ".. note::" begins a remark
        return False
    if following.islower() and (written[0] in ".…" or stop[1]):  # "approx. five"; "Why?" he asked.
        return False
    if written == "." and HEADING.fullmatch(before) and not following.isdigit():  # "5. Pets. No pets are allowed."
        return False
    return written[0] != "." or written.startswith("..") or not _is_abbreviation(before, following)


def _is_abbreviation(before: str, following: str) -> bool:
    """Whether the full stop after ``before`` belongs to its last word."""
    word = re.split(r"[\s(\[\"'“‘«]", before)[-1]
    if NEVER_LAST.fullmatch(word) or (following.isdigit() and BEFORE_A_NUMBER.fullmatch(word)):
        return True
    if before.strip() == word and re.fullmatch(r"\d+|[a-z]|[ivxIVX]+", word):  # "2." before an item of a list
        return True
    if re.fullmatch(r"[^\W\d_]", word):  # an initial; "than I." is a sentence
        return word.isupper() and word != "I"
    return re.fullmatch(r"(?:[A-Z]\.)+[A-Z]", word) is not None  # U.S.


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

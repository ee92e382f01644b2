"""A long text with facts hidden in it, and every question somebody could ask about them.

prefix     <|im_start|>user  A special magic number is hidden within the following text. ...     always visible
block 0    The grass is green. The sky is blue. The sun is yellow. ...                           \\
block 1    One of the special magic numbers for spicy-otter is: 4417302.                          |  ``length`` tokens
block 2    The grass is green. The sky is blue. The sun is yellow. ...                            |  at most
...                                                                                              /
query      What is the special magic number for spicy-otter ...? <|im_end|> ... The special magic number ... is
answer     4417302                                                                   family {{1}}

Blocks are lines, which cut no fact in two, or as wide as is asked for, which do. They end where no question can change
how they are written; what little of the haystack stands between them and that place, and the line break, goes with the
question. Both together are the tokens of the whole prompt.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import KeepSet, Span
from keepset.text.example import TextExample
from keepset.text.prompt import chat_prompt, check_tokenizer, common_length, continuation, encode, unchanging_tokens

BLOCK_TOKENS = 32
"""A width that blocks may have instead of being lines: 1K tokens are 32 of them."""

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
"""RULER's noise haystack: this line again and again."""


@dataclass(frozen=True)
class Needle:
    """A line to hide, and the part of it that states the fact."""

    line: str
    fact: str
    """From the key to the value. A block that holds only what comes before or after is no evidence: with 32 tokens a
    block, half of the needles reach over an edge, and many of them with the word "One" alone."""


@dataclass(frozen=True)
class Asked:
    """A question a draft can be asked."""

    question: str
    opening: str
    """How the answer begins; written for the model."""
    answers: tuple[str, ...]
    """What a right answer says, in any order."""
    needles: tuple[int, ...]
    """The needles it depends on."""


@dataclass(frozen=True)
class Draft:
    """What a task decides; how long the haystack is depends on the tokenizer."""

    instruction: str
    """Before the document, always visible."""
    needles: tuple[Needle, ...]
    """In the order in which they stand."""
    questions: tuple[Asked, ...]
    """Every question a user could ask."""
    asked: int
    """Which of them the benchmark asks."""
    filler: str = NOISE
    """The line around the needles."""


Count = Callable[[str], int]
"""How many tokens a line takes."""

DocumentTask = Callable[[np.random.Generator, int, Count], Draft]
"""(random numbers, tokens of the document, how to count them) -> what stands in it."""


@dataclass(frozen=True, kw_only=True)
class Question(TextExample):
    """One question about a document; its tokens are the document's, then its own."""

    question: str
    answers: tuple[str, ...]
    """What a generated answer must contain, in any order."""


@dataclass(frozen=True)
class Document:
    """A document and its questions. Before the question is known, all of them are possible."""

    tokens: Tensor
    """(T,) always-visible prefix and blocks; no question."""
    blocks: tuple[Span, ...]
    text: str
    """What the blocks say."""
    questions: tuple[Question, ...]
    asked: int
    """Number of the question the benchmark asks."""

    @property
    def evidence(self) -> KeepSet:
        """Every block a question could need."""
        return frozenset().union(*(question.evidence for question in self.questions))


def write_document(
    draft: Draft,
    tokenizer: PreTrainedTokenizerBase,
    rng: np.random.Generator,
    length: int,
    blocks: Literal["line"] | int,
) -> Document:
    """The needles at random places of a haystack of as many whole lines as ``length`` tokens hold.

    With a number of tokens as ``blocks`` it is exactly ``length`` tokens, and the last line is cut off.
    """
    check_tokenizer(tokenizer)
    haystack, facts = _haystack(draft, tokenizer, rng, length)
    whole, start = _write(draft, tokenizer, haystack, draft.questions[draft.asked])
    ids, offsets = encode(tokenizer, whole)
    stops = [stop - start for _, stop in offsets]  # in the haystack
    first = next(i for i, stop in enumerate(stops) if stop > 0)
    edges = _line_edges(haystack, stops[first:], length)
    if blocks != "line":
        edges = _even_edges(stops[first:], length, blocks)
    if edges[-1] < facts[-1][1]:
        raise ValueError(
            f"length: expected room for {len(draft.needles)} needles, got {length} tokens; use a longer document"
        )
    at = [first + bisect_right(stops[first:], edge) for edge in edges]
    spans, end = tuple(Span(*pair) for pair in pairwise(at)), at[-1]
    context = _shortest(draft, tokenizer, haystack, ids, stops, end)
    block_texts = tuple(haystack[begin:stop] for begin, stop in pairwise(edges))
    questions = []
    for asked in draft.questions:
        text, _ = _write(draft, tokenizer, context, asked)
        tokens, _ = encode(tokenizer, text)
        if tokens[:end] != ids[:end]:
            raise ValueError(f"tokenizer: expected the document to stay as it is before {asked.question!r}")
        needed = [facts[i] for i in asked.needles]
        evidence = {
            i
            for i, (begin, stop) in enumerate(pairwise(edges))
            if any(begin < last and stop > start for start, last in needed)
        }
        questions.append(
            Question(
                tokens=torch.tensor(tokens),
                blocks=spans,
                query=Span(end, len(tokens)),
                answer=continuation(tokenizer, text, tokens, f" {' '.join(asked.answers)}"),
                family=frozenset({frozenset(evidence)}),
                text=text,
                block_texts=block_texts,
                question=asked.question,
                answers=asked.answers,
            )
        )
    return Document(torch.tensor(ids[:end]), spans, haystack[: edges[-1]], tuple(questions), draft.asked)


def _even_edges(stops: list[int], length: int, width: int) -> list[int]:
    """Characters of the haystack at which blocks of ``width`` tokens begin and end; its tokens end at ``stops``."""
    return [0, *stops[:length][width - 1 :: width]]


def _line_edges(haystack: str, stops: list[int], length: int) -> list[int]:
    """The same of whole lines, as long as ``length`` tokens hold them."""
    last = stops[:length][-1]
    return [0, *(found.end() for found in re.finditer(r"\n", haystack) if found.end() <= last)]


def _write(draft: Draft, tokenizer: PreTrainedTokenizerBase, context: str, asked: Asked) -> tuple[str, int]:
    """The prompt up to the answer, in the chat template when there is one, and where the context starts."""
    content = f"{draft.instruction}{context}\n{asked.question}"
    text, start = chat_prompt(tokenizer, content) if tokenizer.chat_template else (content, 0)
    return text + asked.opening, start + len(draft.instruction)


def _shortest(
    draft: Draft, tokenizer: PreTrainedTokenizerBase, haystack: str, ids: list[int], stops: list[int], end: int
) -> str:
    """The shortest beginning of the haystack that starts with the first ``end`` of its tokens, whatever is asked."""
    for stop in stops[end - 1 :]:
        context = haystack[:stop]

        def write(question: str, context: str = context) -> str:
            return _write(draft, tokenizer, context, Asked(question, "", (), ()))[0]

        if common_length(unchanging_tokens(tokenizer, write), ids) >= end:
            return context
    raise ValueError(f"tokenizer: expected some beginning of the document to be tokens of its own, got none of {end}")


def _haystack(
    draft: Draft, tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, length: int
) -> tuple[str, list[tuple[int, int]]]:
    """At least ``length`` tokens of lines, and the characters of each fact."""
    count = token_counter(tokenizer)
    line = count(draft.filler)
    room = length - sum(count(needle.line) for needle in draft.needles)
    lines = max(0, room // line)
    # RULER's way: no two needles in one gap, as long as there are gaps enough.
    gaps = sorted(rng.choice(max(lines, 1), len(draft.needles), replace=lines < len(draft.needles)).tolist())
    context = ""
    facts: list[tuple[int, int]] = []
    for gap in range(lines + length // line + 2):  # more than enough: the end is cut off
        while len(facts) < len(gaps) and gaps[len(facts)] == gap:
            needle = draft.needles[len(facts)]
            place = len(context) + needle.line.index(needle.fact)
            facts.append((place, place + len(needle.fact)))
            context += f"{needle.line}\n"
        context += f"{draft.filler}\n"
    return context, facts


def token_counter(tokenizer: PreTrainedTokenizerBase) -> Count:
    """Counts the tokens of a line and its line break."""
    return lambda line: len(_ids(tokenizer, f"{line}\n"))


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids

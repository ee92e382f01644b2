"""What the model replies, and what of a reply is the answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from transformers import PreTrainedTokenizerBase

from keepset.blocks import KeepSet, Span
from keepset.interventions import Ask, Executor
from keepset.models.endings import line_ends, turn_ends
from keepset.text.example import TextExample
from keepset.text.split import split_blocks


@dataclass(frozen=True)
class Writer:
    """Lets the model reply, once per keep set: greedily, up to the end of the turn or line."""

    executor: Executor
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    prompt: TextExample
    known: dict[KeepSet, tuple[int, ...]] = field(default_factory=dict)

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.prompt.blocks)))

    def tokens(self, keep: KeepSet) -> tuple[int, ...]:
        if keep not in self.known:
            stop = turn_ends(self.executor.model, self.tokenizer) | line_ends(self.tokenizer)
            ask = Ask(self.prompt, keep, (self.prompt.answer,))
            ((self.known[keep],),) = self.executor.generate([ask], self.max_new_tokens, stop)
        return self.known[keep]

    def text(self, keep: KeepSet) -> str:
        return self.decode(self.tokens(keep))

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()


def find_answer(prompt: TextExample, writer: Writer, answer: str | None) -> tuple[str, TextExample]:
    """What of the model's reply is the answer, after the model's own words before it.

        reply               The first keeper of the lighthouse was Ingrid Solberg, a Swedish engineer who
        without context     The first keeper of the lighthouse was a British man
        opening, answer     The first keeper of the lighthouse was | Ingrid Solberg

    A whole reply changes somewhere whatever is hidden. So the words the model would write anyway, and those of a given
    answer that stand before it in the reply, are given to the model; and an answer ends with its clause.
    A given answer that is not in the reply stands right after the prompt.
    """
    reply = writer.tokens(writer.everything)
    if answer is None:
        if not writer.decode(reply):
            raise ValueError(
                "answer: expected the model to write one, got nothing before the end of its turn or line; "
                "pass the answer to explain"
            )
        start = _new_words(reply, writer)
        stop = start + _clause(reply[start:], writer)
    else:
        window = _window(reply, answer.strip(), writer)
        if window is None:
            return "", prompt
        start, stop = window
    opening = torch.tensor(reply[:start], dtype=prompt.tokens.dtype)
    tokens = torch.cat([prompt.tokens, opening])
    query = Span(prompt.query.start, len(tokens))
    return writer.decode(reply[:start]), replace(prompt, tokens=tokens, query=query, answer=reply[start:stop])


def _new_words(reply: tuple[int, ...], writer: Writer) -> int:
    """Where the reply leaves the one without context, at the beginning of a word; 0 when it never does."""
    without = writer.tokens(frozenset())
    pairs = enumerate(zip(reply, without, strict=False))
    start = next((i for i, (one, other) in pairs if one != other), min(len(reply), len(without)))
    if not _words(writer.decode(reply[start:])):
        return 0
    text = writer.decode(reply)
    while start and _words(writer.decode(reply[:start])) + _words(writer.decode(reply[start:])) != _words(text):
        start -= 1
    return start


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _clause(tokens: tuple[int, ...], writer: Writer) -> int:
    """How many of ``tokens`` the first clause has: up to a comma or the end of the sentence."""
    text = writer.decode(tokens)
    first, last = split_blocks(text, "sentence")[0]
    clause = re.split(r"[,;:](?=\s)|[，；：]", text[first:last])[0].strip()
    clause = re.sub(r"[.!?…。！？]+$", "", clause) or clause
    return next(n for n in range(1, len(tokens) + 1) if clause in writer.decode(tokens[:n]))


def _window(reply: tuple[int, ...], answer: str, writer: Writer) -> tuple[int, int] | None:
    """The fewest tokens of the reply that say ``answer``, where it says it first."""
    stop = next((n for n in range(1, len(reply) + 1) if answer in writer.decode(reply[:n])), None)
    if stop is None:
        return None
    start = next(n for n in range(stop - 1, -1, -1) if answer in writer.decode(reply[n:stop]))
    return start, stop

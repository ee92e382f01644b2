"""What the model replies, and which parts of it are explained."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers import PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions import Ask, Executor
from keepset.models.endings import line_ends, turn_ends
from keepset.text.example import TextExample
from keepset.text.split import split_blocks

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True)
class Writer:
    """Lets the model reply greedily, up to the end of its turn; without a chat template, of its line."""

    executor: Executor
    tokenizer: PreTrainedTokenizerBase
    prompt: TextExample
    known: dict[tuple[KeepSet, int], tuple[int, ...]] = field(default_factory=dict)

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.prompt.blocks)))

    def tokens(self, keep: KeepSet, most: int, guess: tuple[int, ...] = ()) -> tuple[int, ...]:
        """At most so many; what begins like ``guess`` is written sooner."""
        if (keep, most) not in self.known:
            stop = turn_ends(self.executor.model, self.tokenizer)
            if not self.tokenizer.chat_template:
                stop |= line_ends(self.tokenizer)
            ask = Ask(self.prompt, keep, (self.prompt.answer,))
            ((self.known[keep, most],),) = self.executor.generate([ask], most, stop, guess)
        return self.known[keep, most]

    def beginning(self, keep: KeepSet, most: int, guess: tuple[int, ...] = ()) -> str:
        """A reply of at most so many tokens, with dots where it goes on."""
        tokens = self.tokens(keep, most, guess)
        text = decode(self.tokenizer, tokens).strip()
        return text if len(tokens) < most else f"{whole_words(text)} …"


@dataclass(frozen=True)
class Part:
    """A piece of what is explained."""

    start: int
    """Its first character in the text."""
    stop: int
    """One after its last character."""
    tokens: slice
    """Which tokens say it."""


@dataclass(frozen=True)
class Said:
    """What is explained."""

    text: str
    tokens: tuple[int, ...]
    """Read after the prompt; those after the last part are left out."""
    parts: tuple[Part, ...]
    generated: bool
    """The model wrote it."""


def find_said(
    tokenizer: PreTrainedTokenizerBase,
    reply: tuple[int, ...],
    given: str | None,
    prompt: TextExample,
    goes_on: bool = False,
) -> Said:
    """The reply, sentence by sentence, each once; of a given answer, the span of the reply that says it.

    reply    The cat is grey. The ferry leaves at noon, and
    parts    The cat is grey. | The ferry leaves at noon, and
    goes on  The cat is grey.        -> the model would have written more: half a sentence says nothing yet
    given    noon                    -> one part of the same reply
    given    The ferry is cancelled. -> not in the reply: right after the prompt, sentence by sentence
    """
    text = decode(tokenizer, reply)
    if given is None:
        if not text.strip():
            raise ValueError(
                "answer: expected the model to write one, got nothing before the end of its turn or line; "
                "pass the answer to explain"
            )
        parts = parts_of(tokenizer, reply, split_blocks(text, "sentence"))
        if goes_on and len(parts) > 1 and not text.rstrip().endswith(SENTENCE_ENDS):
            parts = parts[:-1]
            reply = reply[: parts[-1].tokens.stop]
        return Said(text, reply, said_first(text, parts), True)
    begin = text.find(given.strip())
    if begin >= 0:
        parts = parts_of(tokenizer, reply, [(begin, begin + len(given.strip()))])
        return Said(text, reply[: parts[-1].tokens.stop], parts, True)
    text = decode(tokenizer, prompt.answer)
    return Said(text, prompt.answer, parts_of(tokenizer, prompt.answer, split_blocks(text, "sentence")), False)


def said_first(text: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Without sentences that the reply has said before: small models go round in circles."""
    first: dict[str, Part] = {}
    for part in parts:
        first.setdefault(text[part.start : part.stop].strip().casefold(), part)
    return tuple(first.values())


def parts_of(
    tokenizer: PreTrainedTokenizerBase, tokens: tuple[int, ...], places: Sequence[tuple[int, int]]
) -> tuple[Part, ...]:
    """The tokens that say the text at each of ``places``; none twice.

    Many vocabularies write the space after a sentence as the beginning of the next word: it does not count.
    """
    text = decode(tokenizer, tokens)
    ends = [len(decode(tokenizer, tokens[: i + 1])) for i in range(len(tokens))]
    parts, free = [], 0
    for start, stop in places:
        last = start + len(text[start:stop].rstrip())
        first = max(free, sum(end <= start for end in ends))
        free = next((i + 1 for i, end in enumerate(ends) if end >= last), len(ends))
        if first < free:
            parts.append(Part(start, stop, slice(first, free)))
    return tuple(parts)


def whole_words(text: str) -> str:
    """Without the last word, which may go on: a number cut short is another number. One word alone is left."""
    return text if text.endswith(SENTENCE_ENDS) else "".join(text.rsplit(maxsplit=1)[:1])


def decode(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True))

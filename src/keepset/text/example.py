"""Anybody's text as an example: a context cut into blocks, then a question.

prefix     <|im_start|>user                            (a chat template's beginning, when there is one)
block 0    The pier was rebuilt in 1931.
block 1    Dr. Vane ran it until the war.
query      Who ran the pier? <|im_end|> <|im_start|>assistant
answer     Dr. Vane
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Example, Span
from keepset.text.prompt import Characters, Prompt, check_text, continuation, encode, lay_out
from keepset.text.split import Blocks

NOT_YET: tuple[int, ...] = (0,)
"""Stands where the answer will be, for a prompt that is laid out before there is one."""


@dataclass(frozen=True, kw_only=True)
class TextExample(Example):
    """An example with its text. Its query starts where a document without a question ends: see ``text.prompt``."""

    text: str
    """The whole prompt: what ``tokens`` says, without a leading token the tokenizer adds by itself."""
    block_texts: tuple[str, ...]
    """What each block says, with the white space after it."""
    places: tuple[Characters, ...] = ()
    """The blocks in the characters of the context."""
    candidates: tuple[tuple[int, ...], ...] = ()
    """Token ids of the answers to choose from, the gold one among them; empty when none were given."""
    asked: Span | None = None
    """The question's own words in ``tokens``: not the white space before it, nor a template's end; None: not known."""
    words: tuple[int, ...] = ()
    """Which word each token from the question's first on says, the answer's too; empty: not known."""

    @cached_property
    def before_question(self) -> Example:
        """The prompt up to the question's first word, and everything after it as what is said."""
        if self.asked is None:
            return self
        cut = self.asked.start
        rest = tuple(self.tokens[cut:].tolist())
        return Example(self.tokens[:cut], self.blocks, Span(self.query.start, cut), (*rest, *self.answer))


def text_example(
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | Sequence[int],
    blocks: Blocks = "sentence",
    candidates: Sequence[str] | None = None,
) -> TextExample:
    """The context, then the question, as one prompt: in the tokenizer's chat template when it has one.

    ``answer`` is a text, or the token ids a model wrote. Text outside the caller's own spans is always visible.
    """
    check_text("context", context)
    check_text("question", question)
    prompt = lay_out(tokenizer, context, blocks, question)
    tokens = [*prompt.tokens.tolist(), *prompt.question.tolist()]
    written = [answer_tokens(tokenizer, prompt.text, tokens, candidate) for candidate in candidates or ()]
    if not isinstance(answer, Sequence) or isinstance(answer, bytes):  # bytes would pass for token ids
        check_text("answer", answer)
    gold = answer_tokens(tokenizer, prompt.text, tokens, answer) if isinstance(answer, str) else tuple(answer)
    if candidates is not None and gold not in written:
        raise ValueError(f"candidates: expected the answer {answer!r} among them, got {list(candidates)}")
    asked = question_span(tokenizer, prompt, question)
    return TextExample(
        tokens=torch.tensor(tokens),
        blocks=prompt.blocks,
        query=Span(len(prompt.tokens), len(tokens)),
        answer=gold,
        text=prompt.text,
        block_texts=tuple(context[begin:stop] for begin, stop in prompt.places),
        places=prompt.places,
        candidates=tuple(written),
        asked=asked,
        words=word_numbers(tokenizer, [*tokens[asked.start if asked else len(tokens) :], *gold]),
    )


def word_numbers(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> tuple[int, ...]:
    """Which word each token says: one goes on while letters and digits follow each other."""
    texts = [str(tokenizer.decode([token])) for token in tokens]
    begins = [
        not (before[-1:].isalnum() and text[:1].isalnum()) for before, text in zip(["", *texts], texts, strict=False)
    ]
    return tuple(itertools.accumulate(map(int, begins)))


def question_span(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, question: str) -> Span | None:
    """The question's own tokens after the cut; None where there are none.

    A token belongs where its last character is, as everywhere in ``text.prompt``. The first one after the cut is never
    among them: something must stand before what a text is to make likelier.
    """
    _, offsets = encode(tokenizer, prompt.text)
    begin = prompt.text.index(question.strip(), prompt.asked_at)
    end = begin + len(question.strip())
    own = [i for i, (_, stop) in enumerate(offsets) if begin < stop <= end and i > len(prompt.tokens)]
    return Span(own[0], own[-1] + 1) if own else None


def answer_tokens(tokenizer: PreTrainedTokenizerBase, text: str, tokens: list[int], answer: str) -> tuple[int, ...]:
    """The answer starts where the model would start it: after a space, unless the prompt has just begun something."""
    check_text("answer", answer)
    begun = text[-1].isspace() or tokens[-1] in tokenizer.all_special_ids
    return continuation(tokenizer, text, tokens, answer.strip() if begun else f" {answer.strip()}")

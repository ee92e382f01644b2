"""Whether a text is about a question at all: how much of the question's surprise the text explains.

    likelier   1 - log p(question | text) / log p(question)              over the question's own tokens
    named      share of the question's surprise in words that the text has too, each weighed by its own surprise
    about      mostly the first; a quarter as much the second

What the text is worth for a model's reply does not tell: a small model talks about the text whatever it is asked. What
it is worth for the question does: the names and words that a question takes from its text are no surprise after it. A
text on the same subject makes the question likelier too, by its manner; then the words tell.
"""

import re

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.interventions import Executor
from keepset.labels.support import Answer
from keepset.text.bm25 import words
from keepset.text.example import NOT_YET, TextExample, text_example
from keepset.text.prompt import encode
from keepset.text.split import Blocks

NAMED = 0.2
"""Weight of the words beside the likelihood. Chosen on SQuAD train articles, as the thresholds are."""
SMOLLM2_THRESHOLD = 0.288
UNKNOWN_MODEL_THRESHOLD = SMOLLM2_THRESHOLD
"""SmolLM2's, which is the only one that was tuned."""
THRESHOLDS = {"smollm2-135m-instruct": SMOLLM2_THRESHOLD}
"""Model -> the value from which a text seems to be about a question. Tuned on SQuAD train articles by
``keepset bench evidence``: a paragraph's own questions against those of the same article's other paragraphs."""


def about_threshold(model: str) -> float:
    """For a bundled model its own; for any other one a default nobody has tuned for it."""
    return THRESHOLDS.get(model, UNKNOWN_MODEL_THRESHOLD)


def about_question(
    executor: Executor, tokenizer: PreTrainedTokenizerBase, context: str, question: str, blocks: Blocks = "sentence"
) -> float:
    """How much the text is about the question: 1 entirely, 0 not at all; below 0 it misleads.

    One forward of the text and the question, and one of the question alone.
    """
    example = text_example(tokenizer, context, question, NOT_YET, blocks)
    return about_answer(Answer(example, executor), tokenizer)


def about_answer(answer: Answer, tokenizer: PreTrainedTokenizerBase) -> float:
    """The same of the question of an answer that is read anyway.

    1 where the question has no words of its own to read: nothing speaks against the text.
    """
    example = answer.example
    if not isinstance(example, TextExample) or example.asked is None:
        return 1.0
    with_text, without = answer.read_question([answer.everything, frozenset()])
    likelier = float(1 - with_text.sum() / without.sum())
    return (1 - NAMED) * likelier + NAMED * named_share(example, example.asked, tokenizer, without)


def named_share(example: TextExample, asked: Span, tokenizer: PreTrainedTokenizerBase, without: Tensor) -> float:
    """Of the surprise of the question's words, the share of those that stand in the text as they are."""
    _, offsets = encode(tokenizer, example.text)
    offsets = offsets[asked.start : asked.stop]
    own = [stop - 1 for _, stop in offsets]  # a token is where it ends
    known = set(words("".join(example.block_texts)))
    begin, end = offsets[0][0], offsets[-1][1]
    surprise = {True: 0.0, False: 0.0}
    for word in re.finditer(r"\w+", example.text[begin:end].lower()):
        first, last = begin + word.start(), begin + word.end()
        surprise[word.group() in known] -= sum(float(without[i]) for i, at in enumerate(own) if first <= at < last)
    return surprise[True] / sum(surprise.values()) if any(surprise.values()) else 0.0

"""Whether a text is about a question at all: how much of the question's surprise the text explains.

    likelier   1 - log p(question | text) / log p(question)              over the question's own tokens
    named      share of the question's words that the text has too, by their first letters, each weighed by its surprise
    about      mostly the first, and the second

What the text is worth for a model's reply does not tell: a small model talks about the text whatever it is asked. What
it is worth for the question does: the names and words that a question takes from its text are no surprise after it. A
text on the same subject makes the question likelier too, mostly by the subject's name; then the words tell, none of
which counts for much more than another.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions import Ask, Executor
from keepset.labels.worth import MOST_NATS, Answer
from keepset.text.bm25 import words
from keepset.text.example import NOT_YET, TextExample, text_example
from keepset.text.lexical import COMMON, STEM
from keepset.text.prompt import encode
from keepset.text.split import Blocks

NAMED = 0.4
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


def about_questions(
    executor: Executor,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    questions: Sequence[str],
    blocks: Blocks = "sentence",
) -> list[float]:
    """How much the text is about each question: 1 entirely, 0 not at all; below 0 it misleads.

    One forward of the text and the questions, and one of the questions alone. 1 where a question has no words of its
    own to read: nothing speaks against the text.
    """
    examples = [text_example(tokenizer, context, question, NOT_YET, blocks) for question in questions]
    found = [1.0] * len(examples)
    by_beginning: dict[tuple[int, ...], list[int]] = {}
    for i, example in enumerate(examples):
        if example.asked is not None:
            by_beginning.setdefault(tuple(example.before_question.tokens.tolist()), []).append(i)
    for numbers in by_beginning.values():
        beginning = examples[numbers[0]].before_question
        asked = tuple(_own_tokens(examples[i]) for i in numbers)
        everything: KeepSet = frozenset(range(len(beginning.blocks)))
        (with_text, *_), (without, *_) = executor.read(
            [Ask(beginning, keep, asked) for keep in (everything, frozenset())]
        )
        for place, i in enumerate(numbers):
            read = (torch.tensor(view.log_probs[place]) for view in (with_text, without))
            found[i] = _about(examples[i], tokenizer, *read)
    return found


def about_answer(answer: Answer, tokenizer: PreTrainedTokenizerBase) -> float:
    """The same of the question of an answer that is read anyway."""
    example = answer.example
    if not isinstance(example, TextExample) or example.asked is None:
        return 1.0
    return _about(example, tokenizer, *answer.read_question([answer.everything, frozenset()]))


def named_share(example: TextExample, tokenizer: PreTrainedTokenizerBase, without: Tensor) -> float:
    """Of the question's words that say something, the share of those that the text has too; all words where none does.

    A word weighs what it surprises with, up to ``MOST_NATS``: the name of an article's subject stands in all of it.
    """
    assert example.asked is not None
    _, offsets = encode(tokenizer, example.text)
    offsets = offsets[example.asked.start : example.asked.stop]
    own = [stop - 1 for _, stop in offsets]  # a token is where it ends
    begin, end = offsets[0][0], offsets[-1][1]
    asked = list(re.finditer(r"\w+", example.text[begin:end].lower()))
    asked = [word for word in asked if word.group() not in COMMON] or asked
    known = {word[:STEM] for word in words("".join(example.block_texts))}
    weights = {True: 0.0, False: 0.0}
    for word in asked:
        first, last = begin + word.start(), begin + word.end()
        surprise = -sum(float(without[i]) for i, at in enumerate(own) if first <= at < last)
        weights[word.group()[:STEM] in known] += min(surprise, MOST_NATS)
    return weights[True] / sum(weights.values()) if any(weights.values()) else 0.0


def _about(example: TextExample, tokenizer: PreTrainedTokenizerBase, with_text: Tensor, without: Tensor) -> float:
    likelier = float(1 - with_text.sum() / without.sum())
    return (1 - NAMED) * likelier + NAMED * named_share(example, tokenizer, without)


def _own_tokens(example: TextExample) -> tuple[int, ...]:
    assert example.asked is not None
    return tuple(example.tokens[example.asked.start : example.asked.stop].tolist())

"""Whether a text is about a question at all: how much of the question's surprise the text explains.

    likelier   1 - log p(question | text) / log p(question)                 over the question's own tokens
    named      share of the question's words that the text has too, by their first letters; words that stand all over
               the text count less, and none for more than a few nats
    gained     nats that the text gives to those words: a long question that is met says more than a short one

What the text is worth for a model's reply does not tell: a small model talks about the text whatever it is asked. What
it is worth for the question does: the names and words that a question takes from its text are no surprise after it. A
text on the same subject makes the question likelier too, mostly by the subject's name; then the other words tell.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.interventions import Ask, Executor
from keepset.labels.worth import MOST_NATS, Answer
from keepset.text.bm25 import words
from keepset.text.example import NOT_YET, TextExample, text_example
from keepset.text.lexical import COMMON, STEM, coverage, rarities
from keepset.text.prompt import encode

LIKELIER, NAMED, GAINED = 0.5, 0.4, 0.007
"""Weights of the three, the last for a nat: those of a logistic regression on 150 paragraphs of SQuAD train articles,
rounded."""
THRESHOLDS = {"smollm2-135m-instruct": 0.2609, "qwen2.5-coder-1.5b-instruct": 0.2750}
"""Model -> the value from which a text seems to be about a question. Tuned on SQuAD train articles by
``keepset bench evidence``: a paragraph's own questions against those of the same article's other paragraphs."""
UNKNOWN_MODEL_THRESHOLD = THRESHOLDS["smollm2-135m-instruct"]
"""Nobody has tuned it for another model; that of one ten times as large is near."""


@dataclass(frozen=True)
class About:
    """How much some text is about a question."""

    likelier: float
    """1: the question is no surprise after the text; 0: as much as without it; below 0: more."""
    named: float
    gained: float
    """Nats."""

    @property
    def value(self) -> float:
        return LIKELIER * self.likelier + NAMED * self.named + GAINED * self.gained


NOTHING_ASKED = About(1.0, 1.0, 0.0)
"""Of a question without words of its own to read: nothing speaks against the text."""


def about_threshold(model: str) -> float:
    """For a bundled model its own; for any other one a default nobody has tuned for it."""
    return THRESHOLDS.get(model, UNKNOWN_MODEL_THRESHOLD)


def about_questions(
    executor: Executor, tokenizer: PreTrainedTokenizerBase, context: str, questions: Sequence[str]
) -> list[About]:
    """How much the text is about each question. One forward of the text and the questions, and one of the questions
    alone."""
    examples = [text_example(tokenizer, context, question, NOT_YET, "sentence") for question in questions]
    found = [NOTHING_ASKED] * len(examples)
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
            found[i] = _about(examples[i], tokenizer, everything, *read)
    return found


def about_answer(answer: Answer, tokenizer: PreTrainedTokenizerBase) -> About:
    """The same of the question of an answer that is read anyway."""
    return _abouts(answer, tokenizer, [answer.everything])[0]


def about_blocks(answer: Answer, tokenizer: PreTrainedTokenizerBase) -> list[About]:
    """How much each block alone is about the question: the one that is most of all is what the question points at."""
    return _abouts(answer, tokenizer, [frozenset({block}) for block in sorted(answer.everything)])


def most_about(nearness: Sequence[float]) -> int | None:
    """The block that is most about the question."""
    return max(range(len(nearness)), key=nearness.__getitem__) if nearness else None


def _abouts(answer: Answer, tokenizer: PreTrainedTokenizerBase, keeps: Sequence[KeepSet]) -> list[About]:
    example = answer.example
    if not isinstance(example, TextExample) or example.asked is None:
        return [NOTHING_ASKED] * len(keeps)
    without, *read = answer.read_question([frozenset(), *keeps])
    return [_about(example, tokenizer, keep, found, without) for keep, found in zip(keeps, read, strict=True)]


def _about(
    example: TextExample, tokenizer: PreTrainedTokenizerBase, keep: KeepSet, with_text: Tensor, without: Tensor
) -> About:
    asked = question_words(example, tokenizer)
    texts = [[word[:STEM] for word in words(text)] for text in example.block_texts]
    rare = rarities([word for word, _ in asked], texts)
    there = {word for block in keep for word in texts[block]}
    surprise = {word: min(-float(without[tokens].sum()), MOST_NATS) * rare[word] for word, tokens in asked}
    gains = (with_text - without).double()
    return About(
        likelier=float(1 - with_text.sum() / without.sum()),
        named=coverage(surprise, there),
        gained=sum(min(max(float(gains[tokens].sum()), -MOST_NATS), MOST_NATS) for _, tokens in asked),
    )


def question_words(example: TextExample, tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, list[int]]]:
    """The first letters of each word of the question that says something, and its tokens; all words where none does."""
    assert example.asked is not None
    _, offsets = encode(tokenizer, example.text)
    offsets = offsets[example.asked.start : example.asked.stop]
    begin, end = offsets[0][0], offsets[-1][1]
    found = list(re.finditer(r"\w+", example.text[begin:end].lower()))
    said = [word for word in found if word.group() not in COMMON] or found
    ends = [stop - 1 - begin for _, stop in offsets]  # a token is where it ends
    return [(word.group()[:STEM], [i for i, at in enumerate(ends) if word.start() <= at < word.end()]) for word in said]


def _own_tokens(example: TextExample) -> tuple[int, ...]:
    assert example.asked is not None
    return tuple(example.tokens[example.asked.start : example.asked.stop].tolist())

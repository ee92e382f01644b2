"""SQuAD v1.1 as questions with a gold sentence (CC BY-SA 4.0, Rajpurkar et al. 2016; read from a file the user names).

context    The pier was rebuilt in 1931. Dr. Vane ran it until the war. It burned down in 1944.
question   Who ran the pier?
answer     Dr. Vane            gold sentence 1: the one the annotators' answers start in
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from keepset.files import read_record
from keepset.text.split import split_blocks


class _SquadAnswer(BaseModel):
    text: str
    answer_start: int


class _SquadAsked(BaseModel):
    id: str
    question: str
    answers: list[_SquadAnswer]
    """Empty where the text does not answer: v2.0 has such questions."""


class _SquadParagraph(BaseModel):
    context: str
    qas: list[_SquadAsked]


class _SquadEntry(BaseModel):
    title: str
    paragraphs: list[_SquadParagraph]


class _SquadFile(BaseModel):
    data: list[_SquadEntry]


@dataclass(frozen=True)
class SquadQuestion:
    """A question whose answer stands in exactly one sentence of its paragraph."""

    id: str
    article: str
    paragraph: int
    """Number of the paragraph in its article."""
    context: str
    question: str
    answers: tuple[str, ...]
    """What annotators marked, the first one first; equal ones once."""
    sentences: tuple[tuple[int, int], ...]
    """Character spans of the sentences of ``context``."""
    gold: int
    """The sentence that holds the answer."""


def read_squad(path: Path) -> list[SquadQuestion]:
    """Every question whose answer text stands in one sentence only, and all of whose annotators mark that sentence."""
    found = []
    for article in _articles(path):
        for number, paragraph in enumerate(article.paragraphs):
            context = paragraph.context
            sentences = tuple(split_blocks(context, "sentence"))
            for asked in paragraph.qas:
                gold = _gold_sentence(context, sentences, asked.answers)
                if gold is not None:
                    found.append(
                        SquadQuestion(
                            id=asked.id,
                            article=article.title,
                            paragraph=number,
                            context=context,
                            question=asked.question.strip(),
                            answers=tuple(dict.fromkeys(answer.text for answer in asked.answers)),
                            sentences=sentences,
                            gold=gold,
                        )
                    )
    return found


@dataclass(frozen=True)
class ArticleQuestion:
    """A question beside the consecutive sentences of its article that it is asked of."""

    question: str
    answers: tuple[str, ...]
    place: int
    """Of the question among those of the article."""
    gold: int
    """Number of the sentence that holds the answer, in the article."""
    sentences: range
    """The sentences it is asked of, in the article."""


@dataclass(frozen=True)
class SquadArticle:
    """An article as one text, and every question whose answer stands in one of its sentences."""

    title: str
    text: str
    """The paragraphs, a blank line after each."""
    sentences: tuple[tuple[int, int], ...]
    """Character spans in ``text``."""
    questions: tuple[str, ...]
    """As ``read_squad`` gives them."""
    asked: tuple[ArticleQuestion, ...]
    """Those with enough sentences around them, and the answer in none of the others."""

    def said(self, sentence: int) -> str:
        start, stop = self.sentences[sentence]
        return self.text[start:stop]


def read_articles(path: Path, sentences: int = 16) -> list[SquadArticle]:
    """The articles; a question is asked of ``sentences`` consecutive ones: its paragraph and what follows it.

    At the end of an article, what stands before.
    """
    by_article: dict[str, list[SquadQuestion]] = {}
    for asked in read_squad(path):
        by_article.setdefault(asked.article, []).append(asked)
    return [_article(article, by_article.get(article.title, []), sentences) for article in _articles(path)]


def _article(entry: _SquadEntry, questions: Sequence[SquadQuestion], size: int) -> SquadArticle:
    text = ""
    spans: list[tuple[int, int]] = []
    firsts: list[int] = []
    for paragraph in entry.paragraphs:
        context = paragraph.context
        shift = len(text) - (len(context) - len(context.lstrip()))
        firsts.append(len(spans))
        spans += [(max(len(text), start + shift), stop + shift) for start, stop in split_blocks(context, "sentence")]
        text += context.strip() + "\n\n"
    spans = [(start, min(stop, len(text))) for start, stop in spans]
    article = SquadArticle(entry.title, text, tuple(spans), tuple(asked.question for asked in questions), ())
    asked = []
    for place, question in enumerate(questions):
        first = firsts[question.paragraph]
        around = range(min(first, len(spans) - size), min(first, len(spans) - size) + size)
        gold = first + question.gold
        others = (article.said(i) for i in around if i != gold) if around.start >= 0 else ()
        if around.start >= 0 and gold in around and not any(question.answers[0] in other for other in others):
            asked.append(ArticleQuestion(question.question, question.answers, place, gold, around))
    return replace(article, asked=tuple(asked))


def sample_squad(
    questions: Sequence[SquadQuestion], n: int, seed: int, fewest: int = 5, most: int = 14
) -> list[SquadQuestion]:
    """``n`` questions of different paragraphs, taken from all articles in turn; paragraphs of so many sentences.

    One question a paragraph: two of one paragraph are not independent.
    """
    rng = random.Random(seed)
    by_paragraph: dict[tuple[str, int], list[SquadQuestion]] = {}
    for question in questions:
        if fewest <= len(question.sentences) <= most:
            by_paragraph.setdefault((question.article, question.paragraph), []).append(question)
    by_article: dict[str, list[SquadQuestion]] = {}
    for (article, _), asked in by_paragraph.items():
        by_article.setdefault(article, []).append(rng.choice(asked))
    for asked in by_article.values():
        rng.shuffle(asked)
    turns = max(map(len, by_article.values()), default=0)
    order = [asked[turn] for turn in range(turns) for asked in by_article.values() if turn < len(asked)]
    if len(order) < n:
        raise ValueError(f"SQuAD: expected {n} paragraphs of {fewest} to {most} sentences, got {len(order)}")
    return order[:n]


def _gold_sentence(context: str, sentences: Sequence[tuple[int, int]], answers: Sequence[_SquadAnswer]) -> int | None:
    if not answers:
        return None
    marked = {
        i for answer in answers for i, (start, stop) in enumerate(sentences) if start <= answer.answer_start < stop
    }
    holding = [i for i, (start, stop) in enumerate(sentences) if answers[0].text in context[start:stop]]
    return holding[0] if len(marked) == 1 and holding == [*marked] else None


def _articles(path: Path) -> list[_SquadEntry]:
    return read_record(path, _SquadFile, "a SQuAD v1.1 file (JSON, or gzip of it)").data

"""SQuAD articles and QASPER papers as blocks, with what is asked about them; and who learns from which.

held out    SQuAD dev; three tenths of the QASPER papers          never seen while anything is chosen
tuning      every fifth SQuAD train article; a tenth of the papers      settings are chosen here
training    the rest
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from keepset.blocks import KeepSet
from keepset.paper.natural.states import Reader, Seen, Source
from keepset.routers.text import QuestionFeatures, TextFeatures, question_features, text_features
from keepset.routers.words import word_bag
from keepset.text.lexical import Passage, passages, place_numbers
from keepset.text.prompt import token_spans
from keepset.text.qasper import QasperPaper, read_qasper
from keepset.text.split import split_blocks
from keepset.text.squad import SquadArticle, read_articles

Split = Literal["train", "tune", "held_out"]
Cut = Literal["paragraph", "sentence"]

QASPER_FILE = "qasper_fulltext_papers.json.gz"
SQUAD_FILES = {"train": "squad_train_44articles.json.gz", "dev": "squad_dev_v1.1.json.gz"}


@dataclass(frozen=True, eq=False)
class AskedOf:
    """A question about some consecutive blocks of a document."""

    question: str
    blocks: range
    gold: Tensor
    """(N,) bool over ``blocks``: what holds the answer."""
    features: QuestionFeatures


@dataclass(frozen=True, eq=False)
class Read:
    """A document cut into blocks, as the router reads it."""

    id: str
    passages: list[Passage]
    words: list[int]
    """Of each block: what a budget counts."""
    features: TextFeatures
    wanted: Tensor
    """(N,) bool: blocks that some question needs."""
    asked: list[AskedOf]


@dataclass(frozen=True, eq=False)
class Question:
    """A question before anybody has read it."""

    question: str
    blocks: range
    gold: Tensor
    place: int
    """Among the questions of its document."""


def qasper_split(paper: str) -> Split:
    """By paper id alone, so that it stays the same whatever papers there are."""
    number = zlib.crc32(paper.encode()) % 10
    return "held_out" if number < 3 else "tune" if number == 3 else "train"


def squad_split(number: int) -> Split:
    """Of an article of SQuAD train."""
    return "tune" if number % 5 == 4 else "train"


def qasper_source(paper: QasperPaper) -> Source:
    return Source(
        f"qasper-{paper.id}".replace("/", "_"), paper.text, tuple(asked.question for asked in paper.questions)
    )


def squad_source(article: SquadArticle, split: str) -> Source:
    return Source(f"squad-{split}-{article.title}".replace("/", "_"), article.text, article.questions)


@lru_cache(maxsize=1)
def papers(data: Path) -> list[QasperPaper]:
    """The shorter first."""
    return read_qasper(data / QASPER_FILE)


@lru_cache(maxsize=2)
def articles(data: Path, split: str) -> list[SquadArticle]:
    return read_articles(data / SQUAD_FILES[split])


def read_paper(reader: Reader | None, paper: QasperPaper, blocks: Cut) -> Read:
    """A paper in its paragraphs, or in the sentences inside them; without a reader only words are known of it.

    The sentences of an evidence paragraph that hold the answer are wanted, or all of them where none does.
    """
    places, wanted, questions = _cut_paper(paper, blocks)
    seen = None if reader is None else reader.see(qasper_source(paper))
    return _read(paper.id, paper.text, places, seen, wanted, questions)


def read_article(reader: Reader | None, article: SquadArticle, split: str) -> Read:
    """An article in its sentences; a question is asked of sixteen of them."""
    wanted, questions = _cut_article(article)
    seen = None if reader is None else reader.see(squad_source(article, split))
    return _read(article.title, article.text, article.sentences, seen, wanted, questions)


def _cut_paper(paper: QasperPaper, blocks: Cut) -> tuple[list[tuple[int, int]], Tensor, list[Question]]:
    places = list(paper.paragraphs) if blocks == "paragraph" else list(_sentences(paper))
    homes = [_home(paper, place) for place in places]
    golds = []
    for asked in paper.questions:
        inside = [home in asked.evidence for home in homes]
        exact = [
            there and (blocks == "paragraph" or not asked.extractive or _holds(paper, place, asked.answers))
            for there, place in zip(inside, places, strict=True)
        ]
        golds.append(torch.tensor(exact if any(exact) else inside))
    questions = [
        Question(asked.question, range(len(places)), gold, i)
        for i, (asked, gold) in enumerate(zip(paper.questions, golds, strict=True))
        if asked.fits and gold.any()
    ]
    return places, torch.stack(golds).any(0), questions


def _cut_article(article: SquadArticle) -> tuple[Tensor, list[Question]]:
    wanted = torch.zeros(len(article.sentences), dtype=torch.bool)
    wanted[[asked.gold for asked in article.asked]] = True
    return wanted, [
        Question(asked.question, asked.sentences, torch.tensor([i == asked.gold for i in asked.sentences]), asked.place)
        for asked in article.asked
    ]


def _read(
    name: str,
    text: str,
    places: Sequence[tuple[int, int]],
    seen: Seen | None,
    wanted: Tensor,
    questions: Sequence[Question],
) -> Read:
    said = passages(text, places)
    if seen is None:
        features = unread_features(said)
    else:
        offsets = [(int(start), int(stop)) for start, stop in seen.places.tolist()]
        features = text_features(seen.states, token_spans(offsets, places, len(offsets)), said)
    asked = []
    for found in questions:
        beside = said[found.blocks.start : found.blocks.stop]
        states = torch.zeros(0, 0) if seen is None else seen.questions[found.place]
        asked.append(
            AskedOf(found.question, found.blocks, found.gold, question_features(states, found.question, beside))
        )
    return Read(name, said, [len(passage.text.split()) for passage in said], features, wanted, asked)


def unread_features(said: Sequence[Passage]) -> TextFeatures:
    """Without what a reader sees."""
    words, headings = word_bag([passage.text for passage in said]), word_bag([passage.heading for passage in said])
    return TextFeatures(
        torch.zeros(len(said), 0),
        torch.tensor([place_numbers(passage) for passage in said]),
        *words,
        *headings,
        torch.zeros(0, 0),
        torch.zeros(0, dtype=torch.long),
    )


def part(features: TextFeatures, blocks: range) -> TextFeatures:
    """Some consecutive blocks of a text."""
    first, last = blocks.start, blocks.stop
    inside = (features.block_of >= first) & (features.block_of < last)

    def bag(joined: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        end = int(starts[last]) if last < len(starts) else len(joined)
        return joined[int(starts[first]) : end], starts[first:last] - starts[first]

    return TextFeatures(
        features.pooled[first:last],
        features.numbers[first:last],
        *bag(features.words, features.word_starts),
        *bag(features.headings, features.heading_starts),
        features.states[inside],
        features.block_of[inside] - first,
    )


def answering_sentences(paper: QasperPaper) -> tuple[list[int], KeepSet]:
    """The paragraph of every sentence; and the sentences of evidence that hold an extractive answer."""
    places = list(_sentences(paper))
    homes = [_home(paper, place) for place in places]
    found = (
        i
        for i, (home, place) in enumerate(zip(homes, places, strict=True))
        for asked in paper.questions
        if asked.extractive and home in asked.evidence and _holds(paper, place, asked.answers)
    )
    return homes, frozenset(found)


def _sentences(paper: QasperPaper) -> Iterator[tuple[int, int]]:
    for start, stop in paper.paragraphs:
        for begin, end in split_blocks(paper.text[start:stop], "sentence"):
            yield start + begin, start + end


def _home(paper: QasperPaper, place: tuple[int, int]) -> int:
    return next(i for i, (start, stop) in enumerate(paper.paragraphs) if start <= place[0] < stop)


def _holds(paper: QasperPaper, place: tuple[int, int], answers: Sequence[str]) -> bool:
    return any(answer in paper.text[place[0] : place[1]] for answer in answers)

"""What is read: which papers and articles teach, which are held out, and how many of each at every scale."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from keepset.paper.bench.models import TINY, loaded
from keepset.paper.natural.documents import (
    Cut,
    Read,
    Split,
    articles,
    papers,
    qasper_split,
    read_article,
    read_paper,
    squad_split,
)
from keepset.paper.natural.states import Reader
from keepset.paper.natural.training import Lessons
from keepset.routers.block import ReadModel
from keepset.text.qasper import QasperPaper

QASPER, SENTENCES, SQUAD = "qasper", "qasper sentences", "squad"
ALL_SQUAD = "all squad"
"""Also the articles that nobody has read: for scorers that need no reader."""
SPLITS: tuple[Split, ...] = ("train", "tune")
CUTS: tuple[Cut, ...] = ("paragraph", "sentence")


@dataclass(frozen=True)
class Setting:
    """How much is read."""

    reader: str
    layers: int
    train_papers: int
    """Of QASPER's papers that are not held out, the shorter first; of the others the words alone are known."""
    held_out_papers: int
    """Of QASPER's held-out papers, the shorter first."""
    train_articles: int
    """Of SQuAD train."""
    dev_articles: int
    """Of SQuAD dev, all held out."""
    likelihood_questions: int
    """For question likelihood, which reads every block again for every question."""
    answers_per_article: int
    """Questions of each SQuAD dev article that the reader answers itself."""
    paper_questions: int
    """About held-out papers, the shorter first, that a model answers itself."""
    answer_budgets: tuple[float, ...]
    """Shares of the words of a paper that it answers from."""
    curve_papers: int
    """For the curve over layers."""
    curve_layers: tuple[int, ...]
    document_tokens: int
    """Of the text whose cost is measured."""
    transfer_lessons: int
    """Questions of each of the training articles that models label."""
    transfer_questions: int
    """Questions of each SQuAD dev article that models label, to ask routers for what an answer rests on."""


SMALL = Setting("smollm2-135m-instruct", 10, 130, 90, 16, 24, 20, 6, 80, (0.25,), 40, (1, 3, 6, 10, 15), 3_300, 12, 5)
SETTINGS = {
    "smoke": Setting(TINY, 1, 6, 3, 3, 2, 2, 1, 2, (0.25,), 8, (1, 2), 200, 1, 1),
    "small": SMALL,
    "paper": replace(
        SMALL,
        train_papers=194,
        train_articles=44,
        dev_articles=48,
        likelihood_questions=200,
        answers_per_article=20,
        paper_questions=250,
        answer_budgets=(0.1, 0.25, 0.5),
        curve_papers=194,
        curve_layers=(1, 3, 6, 10, 15, 20, 30),
    ),
}


@lru_cache(maxsize=1)
def lessons(scale: str, data: Path) -> Lessons:
    """Papers in paragraphs and in sentences, and articles; of those nobody has read, the words."""
    setting = SETTINGS[scale]
    read = [d for split in SPLITS for cut in CUTS for d in qasper(scale, data, split, cut)]
    read += [d for split in SPLITS for d in squad_training(scale, data, split)]
    other_papers = [paper for paper in teaching(data)[setting.train_papers :] if qasper_split(paper.id) in SPLITS]
    everything = enumerate(articles(data, "train"))
    other_articles = [a for i, a in everything if i >= setting.train_articles and squad_split(i) in SPLITS]
    unread = [read_paper(None, paper, cut) for paper in other_papers for cut in CUTS]
    unread += [read_article(None, article, "train") for article in other_articles]
    questions = [(asked.features.numbers, asked.gold) for d in [*read, *unread] for asked in d.asked]
    return Lessons(unread, questions, read)


@lru_cache(maxsize=2)
def held_out(scale: str, data: Path, documents: str, read: bool = True) -> list[Read]:
    """``read``: as the reader sees them; else the words alone, which cost nothing."""
    if documents == ALL_SQUAD:
        return [read_article(None, article, "dev") for article in articles(data, "dev")]
    if documents == SQUAD:
        return squad_dev(scale, data, read)
    return qasper(scale, data, "held_out", "sentence" if documents == SENTENCES else "paragraph", read)


@lru_cache(maxsize=6)
def qasper(scale: str, data: Path, split: Split, blocks: Cut, read: bool = True) -> list[Read]:
    setting = SETTINGS[scale]
    if split == "held_out":
        chosen = held_out_papers(scale, data)
    else:
        chosen = [paper for paper in teaching(data)[: setting.train_papers] if qasper_split(paper.id) == split]
    return [read_paper(reader(scale) if read else None, paper, blocks) for paper in chosen]


def held_out_papers(scale: str, data: Path) -> list[QasperPaper]:
    """The shorter first."""
    found = [paper for paper in papers(data) if qasper_split(paper.id) == "held_out"]
    return found[: SETTINGS[scale].held_out_papers]


def teaching(data: Path) -> list[QasperPaper]:
    """The papers that are not held out, the shorter first."""
    return [paper for paper in papers(data) if qasper_split(paper.id) != "held_out"]


@lru_cache(maxsize=2)
def squad_training(scale: str, data: Path, split: Split) -> list[Read]:
    found = articles(data, "train")[: SETTINGS[scale].train_articles]
    return [read_article(reader(scale), a, "train") for i, a in enumerate(found) if squad_split(i) == split]


@lru_cache(maxsize=1)
def squad_dev(scale: str, data: Path, read: bool = True) -> list[Read]:
    found = articles(data, "dev")[: SETTINGS[scale].dev_articles]
    return [read_article(reader(scale) if read else None, article, "dev") for article in found]


def reader(scale: str) -> Reader:
    return Reader(SETTINGS[scale].reader, SETTINGS[scale].layers)


def reads(scale: str) -> ReadModel:
    return ReadModel.of(loaded(SETTINGS[scale].reader)[0]).model_copy(update={"name": SETTINGS[scale].reader})

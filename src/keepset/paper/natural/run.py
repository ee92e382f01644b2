"""The runs: every scorer on held-out papers and articles, what more papers bring, deeper layers, and what it costs."""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from keepset import seeds
from keepset.compression.compressor import SHIPPED
from keepset.files import sha256
from keepset.paper.bench.models import TINY, loaded
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.natural.answers import gold_first, run_answers, snapkv
from keepset.paper.natural.cost import run_cost
from keepset.paper.natural.documents import (
    Read,
    Split,
    articles,
    papers,
    qasper_split,
    read_article,
    read_paper,
    squad_split,
)
from keepset.paper.natural.layers import run_layers
from keepset.paper.natural.likelihood import question_likelihood
from keepset.paper.natural.measure import Scorer, among_best, question_recall, random_scores, wanted_recall
from keepset.paper.natural.scorers import bm25_scores, lexical, routed, stem_scores, words_scorer
from keepset.paper.natural.states import Reader
from keepset.paper.natural.training import Lessons, Training, train_text_router
from keepset.paper.result import Metric, RunResult
from keepset.routers.block import ReadModel
from keepset.routers.network import WEIGHTS
from keepset.routers.text import TextRouter, load_text_router
from keepset.text.qasper import QasperPaper

NAME = "natural"
DATA = Path("data")
"""Where SQuAD and QASPER are looked for unless ``--data`` says otherwise."""
QASPER, SENTENCES, SQUAD = "qasper", "qasper sentences", "squad"
ALL_SQUAD = "all squad"
"""Also the articles that nobody has read: for scorers that need no reader."""
ROUTER, LEXICAL, WORDS, BM25, STEMS = "router", "lexical", "words", "bm25", "stems"
LIKELIHOOD, RANDOM = "question likelihood", "random"
ORACLE, SNAPKV = "oracle", "snapkv"
"""Where answers are read: the gold sentence itself, and what the model that answers looks at."""


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
    curve_papers: int
    """For the curve over layers."""
    curve_layers: tuple[int, ...]
    document_tokens: int
    """Of the text whose cost is measured."""


SETTINGS = {
    "smoke": Setting(TINY, 1, 6, 3, 3, 2, 2, 1, 8, (1, 2), 200),
    "small": Setting("smollm2-135m-instruct", 10, 130, 90, 16, 24, 20, 6, 40, (1, 3, 6, 10, 15), 3_300),
    "paper": Setting("smollm2-135m-instruct", 10, 194, 90, 44, 48, 200, 20, 194, (1, 3, 6, 10, 15, 20, 30), 3_300),
}
SCORERS: dict[str, tuple[str, ...]] = {
    QASPER: (ROUTER, LEXICAL, WORDS, BM25, STEMS, LIKELIHOOD, RANDOM),
    SENTENCES: (ROUTER, LEXICAL, BM25, RANDOM),
    SQUAD: (ROUTER, LEXICAL, BM25, STEMS, LIKELIHOOD, RANDOM),
    ALL_SQUAD: (LEXICAL, BM25, STEMS, RANDOM),
}
SPLITS: tuple[Split, ...] = ("train", "tune")
CUTS: tuple[Literal["paragraph", "sentence"], ...] = ("paragraph", "sentence")
SHARES = (0.25, 0.5, 1.0)
"""Of the training papers, for the learning curve."""


def jobs(scale: str, data: Path = DATA) -> Jobs:
    """Every scorer on every kind of documents; then what limits the router; then its cost."""
    setting = SETTINGS[scale]
    found: Jobs = {
        f"{NAME}/{documents.replace(' ', '-')}/{scorer.replace(' ', '-')}": partial(
            run_scorer, scale, data, documents, scorer
        )
        for documents, scorers in SCORERS.items()
        for scorer in scorers
    }
    for share in SHARES:
        found[f"{NAME}/papers/{share:g}"] = partial(run_share, scale, data, share)
    found[f"{NAME}/layers"] = lambda: run_layers(
        NAME, scale, setting.reader, setting.curve_layers, teaching(data)[: setting.curve_papers]
    )
    found[f"{NAME}/answers"] = partial(answers, scale, data)
    found[f"{NAME}/cost"] = lambda: run_cost(
        NAME, scale, setting.reader, router_of(scale, data), setting.document_tokens
    )
    return found


def run_scorer(scale: str, data: Path, documents: str, scorer: str) -> RunResult:
    """One scorer on all held-out documents of one kind."""
    started = time.monotonic()
    read = held_out(scale, data, documents)
    score = find_scorer(scale, data, scorer)
    if scorer == LIKELIHOOD:
        read = first_questions(read, SETTINGS[scale].likelihood_questions)
    metrics: list[Metric] = []
    if documents in (SQUAD, ALL_SQUAD):
        metrics += among_best(read, score)
    else:
        if scorer in (ROUTER, LEXICAL, WORDS, RANDOM):
            metrics += wanted_recall(read, score)
        if scorer != WORDS:
            metrics += question_recall(read, score)
    return _result(scale, started, read, metrics, documents=documents, scorer=scorer)


def run_share(scale: str, data: Path, share: float) -> RunResult:
    """A router from some of the training papers, on all held-out papers; no question."""
    started = time.monotonic()
    everything = lessons(scale, data)
    names = sorted({d.id for split in SPLITS for d in qasper(scale, data, split, "paragraph")}, key=by_chance)
    some = set(names[: max(2, round(share * len(names)))])
    read = [replace(d, asked=[]) for d in everything.read if d.id in some or d.id not in names]
    unread = everything.unread[: round(share * len(everything.unread))]
    router = train_text_router(reads(scale), SETTINGS[scale].layers, Lessons(unread, [], read), Training())
    held = held_out(scale, data, QASPER)
    metrics = wanted_recall(held, routed(router))
    return _result(scale, started, held, metrics, share=share, training_papers=len(some))


def answers(scale: str, data: Path) -> RunResult:
    """What the reader still answers when it is given two sentences of sixteen."""
    setting = SETTINGS[scale]
    model, tokenizer = loaded(setting.reader)
    scorers = {name: find_scorer(scale, data, name) for name in (ROUTER, BM25, STEMS, RANDOM)}
    scorers |= {SNAPKV: snapkv(model, tokenizer), ORACLE: gold_first}
    pairs = list(zip(articles(data, "dev"), squad_dev(scale, data), strict=False))
    return run_answers(NAME, scale, (setting.reader, model, tokenizer), pairs, scorers, setting.answers_per_article)


def _result(
    scale: str, started: float, read: Sequence[Read], metrics: Sequence[Metric], **at: str | float
) -> RunResult:
    setting = SETTINGS[scale]
    return run_result(
        NAME,
        scale,
        started,
        at=dict(at),
        config={
            "reader": setting.reader,
            "layers": setting.layers,
            "training_papers": setting.train_papers,
            **router_hash(scale, at.get("scorer")),
        },
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"documents": len(read), "questions": sum(len(d.asked) for d in read)},
        metrics=metrics,
        command=f"keepset bench {NAME} --data FOLDER",
    )


def router_hash(scale: str, scorer: object) -> dict[str, str]:
    """Which weights a scorer of the shipped router has; nothing for the others."""
    if scorer not in (ROUTER, LEXICAL) or scale == "smoke":
        return {}
    return {"router": sha256(SHIPPED / WEIGHTS)}


def find_scorer(scale: str, data: Path, scorer: str) -> Scorer:
    scorers: dict[str, Callable[[], Scorer]] = {
        ROUTER: lambda: routed(router_of(scale, data)),
        LEXICAL: lambda: lexical(router_of(scale, data)),
        WORDS: lambda: words_scorer(teaching(data)),
        BM25: lambda: bm25_scores,
        STEMS: lambda: stem_scores,
        LIKELIHOOD: lambda: question_likelihood(*loaded(SETTINGS[scale].reader)),
        RANDOM: lambda: random_scores,
    }
    return scorers[scorer]()


@lru_cache(maxsize=4)
def router_of(scale: str, data: Path = DATA) -> TextRouter:
    """The one that ships; at smoke size one trained on the spot."""
    if scale != "smoke":
        return load_text_router(SHIPPED)
    quick = Training(lexical_steps=3, epochs=1)
    return train_text_router(reads(scale), 1, lessons(scale, data), quick)


@lru_cache(maxsize=1)
def lessons(scale: str, data: Path, splits: tuple[Split, ...] = SPLITS) -> Lessons:
    """Papers in paragraphs and in sentences, and articles; of those nobody has read, the words."""
    setting = SETTINGS[scale]
    read = [d for split in splits for cut in CUTS for d in qasper(scale, data, split, cut)]
    read += [d for split in splits for d in squad_training(scale, data, split)]
    other_papers = [paper for paper in teaching(data)[setting.train_papers :] if qasper_split(paper.id) in splits]
    everything = enumerate(articles(data, "train"))
    other_articles = [a for i, a in everything if i >= setting.train_articles and squad_split(i) in splits]
    unread = [read_paper(None, paper, cut) for paper in other_papers for cut in CUTS]
    unread += [read_article(None, article, "train") for article in other_articles]
    questions = [(asked.features.numbers, asked.gold) for d in [*read, *unread] for asked in d.asked]
    return Lessons(unread, questions, read)


@lru_cache(maxsize=2)
def held_out(scale: str, data: Path, documents: str) -> list[Read]:
    if documents == ALL_SQUAD:
        return [read_article(None, article, "dev") for article in articles(data, "dev")]
    if documents == SQUAD:
        return squad_dev(scale, data)
    return qasper(scale, data, "held_out", "sentence" if documents == SENTENCES else "paragraph")


@lru_cache(maxsize=6)
def qasper(scale: str, data: Path, split: Split, blocks: str) -> list[Read]:
    setting = SETTINGS[scale]
    if split == "held_out":
        chosen = [paper for paper in papers(data) if qasper_split(paper.id) == split][: setting.held_out_papers]
    else:
        chosen = [paper for paper in teaching(data)[: setting.train_papers] if qasper_split(paper.id) == split]
    return [read_paper(reader(scale), paper, "sentence" if blocks == "sentence" else "paragraph") for paper in chosen]


def teaching(data: Path) -> list[QasperPaper]:
    """The papers that are not held out, the shorter first."""
    return [paper for paper in papers(data) if qasper_split(paper.id) != "held_out"]


@lru_cache(maxsize=2)
def squad_training(scale: str, data: Path, split: Split) -> list[Read]:
    found = articles(data, "train")[: SETTINGS[scale].train_articles]
    return [read_article(reader(scale), a, "train") for i, a in enumerate(found) if squad_split(i) == split]


@lru_cache(maxsize=1)
def squad_dev(scale: str, data: Path) -> list[Read]:
    return [read_article(reader(scale), a, "dev") for a in articles(data, "dev")[: SETTINGS[scale].dev_articles]]


def reader(scale: str) -> Reader:
    return Reader(SETTINGS[scale].reader, SETTINGS[scale].layers)


def reads(scale: str) -> ReadModel:
    return ReadModel.of(loaded(SETTINGS[scale].reader)[0]).model_copy(update={"name": SETTINGS[scale].reader})


def by_chance(name: str) -> int:
    """An order of papers that has nothing to do with their length."""
    return zlib.crc32(f"order {name}".encode())


def first_questions(documents: Sequence[Read], n: int) -> list[Read]:
    """The first question of every document in turn, then the second, until there are ``n``."""
    order = sorted((i, j) for j, d in enumerate(documents) for i in range(len(d.asked)))[:n]
    found = []
    for j, d in enumerate(documents):
        asked = [d.asked[i] for i, at in order if at == j]
        if asked:
            found.append(replace(d, asked=asked))
    return found

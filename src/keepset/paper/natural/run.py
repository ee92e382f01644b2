"""The runs: every scorer on held-out papers and articles, what more papers bring, deeper layers, and what it costs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from keepset import seeds
from keepset.compression.compressor import SHIPPED
from keepset.files import sha256
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import loaded, short_name
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.natural.answers import run_answers, snapkv
from keepset.paper.natural.corpus import (
    ALL_SQUAD,
    QASPER,
    SENTENCES,
    SETTINGS,
    SQUAD,
    held_out,
    held_out_papers,
    lessons,
    reader,
    reads,
    squad_dev,
    teaching,
)
from keepset.paper.natural.cost import run_cost
from keepset.paper.natural.documents import Read, articles, read_paper
from keepset.paper.natural.granularity import run_granularity
from keepset.paper.natural.layers import run_layers
from keepset.paper.natural.likelihood import question_likelihood
from keepset.paper.natural.measure import (
    Scorer,
    among_best,
    gold_first,
    last_first,
    question_recall,
    random_scores,
    shortest_first,
    wanted_recall,
)
from keepset.paper.natural.minilm import minilm_folder, minilm_scores
from keepset.paper.natural.others import run_others
from keepset.paper.natural.paper_answers import attention_scorers, run_paper_answers
from keepset.paper.natural.papers import SHARES, run_papers
from keepset.paper.natural.scorers import bm25_scores, lexical, routed, stem_scores, words_scorer
from keepset.paper.natural.training import Training, train_text_router
from keepset.paper.natural.transfer import run_transfer
from keepset.paper.result import Metric, RunResult
from keepset.routers.network import WEIGHTS
from keepset.routers.text import TextRouter, load_text_router

NAME = "natural"
DATA = Path("data")
"""Where SQuAD and QASPER are looked for unless ``--data`` says otherwise."""
ROUTER, LEXICAL, WORDS, BM25, STEMS = "router", "lexical", "words", "bm25", "stems"
LIKELIHOOD, RANDOM = "question likelihood", "random"
ORACLE = "oracle"
"""What is marked, the shorter first, then the rest as it stands: the ceiling."""
SNAPKV, H2O = "snapkv", "h2o"
"""Where answers are read: what the model that answers looks at."""
MINILM, SHORT, RECENCY = "minilm", "short", "recency"
UNREAD = (LEXICAL, WORDS, BM25, STEMS, MINILM, SHORT, RANDOM, ORACLE)
"""Scorers that need no reader."""
SCORERS: dict[str, tuple[str, ...]] = {
    QASPER: (ORACLE, ROUTER, LEXICAL, WORDS, MINILM, BM25, STEMS, LIKELIHOOD, SHORT, RANDOM),
    SENTENCES: (ORACLE, ROUTER, LEXICAL, BM25, SHORT, RANDOM),
    SQUAD: (ROUTER, LEXICAL, MINILM, BM25, STEMS, LIKELIHOOD, RANDOM),
    ALL_SQUAD: (LEXICAL, BM25, STEMS, RANDOM),
}
WITHOUT_QUESTION = (ORACLE, ROUTER, LEXICAL, WORDS, SHORT, RANDOM)
NEVER_ASKED = (WORDS, SHORT)
"""Scorers that would give the same with a question."""
LARGER: dict[str, tuple[tuple[str, Quantize], ...]] = {"small": (("qwen2.5-coder-1.5b-instruct", "int8"),)}
"""Models that answer questions about papers beside the reader: hours on a CPU, so not in the tests."""


def jobs(scale: str, data: Path = DATA) -> Jobs:
    """Every scorer on every kind of documents; then what limits the router; then its cost."""
    setting = SETTINGS[scale]
    found: Jobs = {
        f"{NAME}/{documents.replace(' ', '-')}/{scorer.replace(' ', '-')}": partial(
            run_scorer, scale, data, documents, scorer
        )
        for documents, scorers in SCORERS.items()
        for scorer in scorers
        if scorer != MINILM or minilm_folder()
    }
    for share in SHARES:
        found[f"{NAME}/papers/{share:g}"] = partial(run_papers, NAME, scale, data, share)
    found[f"{NAME}/granularity"] = lambda: run_granularity(
        NAME, scale, data, {s: find_scorer(scale, data, s) for s in (LEXICAL, SHORT, RANDOM)}
    )
    found[f"{NAME}/others"] = lambda: run_others(NAME, scale, data, find_scorer(scale, data, WORDS))
    found[f"{NAME}/layers"] = lambda: run_layers(
        NAME, scale, setting.reader, setting.curve_layers, teaching(data)[: setting.curve_papers]
    )
    found[f"{NAME}/answers"] = partial(answers, scale, data)
    models = ((setting.reader, None), *LARGER.get(scale, ()))
    found[f"{NAME}/transfer"] = partial(run_transfer, NAME, scale, data, models)
    for model, quantize in models:
        found[f"{NAME}/paper-answers/{short_name(model, quantize)}"] = partial(
            paper_answers, scale, data, model, quantize
        )
    found[f"{NAME}/cost"] = lambda: run_cost(
        NAME, scale, setting.reader, router_of(scale, data), setting.document_tokens
    )
    return found


def run_scorer(scale: str, data: Path, documents: str, scorer: str) -> RunResult:
    """One scorer on all held-out documents of one kind."""
    started = time.monotonic()
    read = held_out(scale, data, documents, scorer not in UNREAD)
    score = find_scorer(scale, data, scorer)
    if scorer == LIKELIHOOD:
        read = first_questions(read, SETTINGS[scale].likelihood_questions)
    metrics: list[Metric] = []
    if documents in (SQUAD, ALL_SQUAD):
        metrics += among_best(read, score)
    else:
        if scorer in WITHOUT_QUESTION:
            metrics += wanted_recall(read, score)
        if scorer not in NEVER_ASKED:
            metrics += question_recall(read, score)
    return _result(scale, started, read, metrics, documents=documents, scorer=scorer)


def answers(scale: str, data: Path) -> RunResult:
    """What the reader still answers when it is given two sentences of sixteen."""
    setting = SETTINGS[scale]
    model, tokenizer = loaded(setting.reader)
    scorers = {name: find_scorer(scale, data, name) for name in (ROUTER, BM25, STEMS, RANDOM)}
    scorers |= {SNAPKV: snapkv(model, tokenizer), ORACLE: gold_first}
    pairs = list(zip(articles(data, "dev"), squad_dev(scale, data), strict=False))
    return run_answers(NAME, scale, (setting.reader, model, tokenizer), pairs, scorers, setting.answers_per_article)


def paper_answers(scale: str, data: Path, name: str, quantize: Quantize | None) -> RunResult:
    """What a model still answers about a paper from what is kept of it."""
    setting = SETTINGS[scale]
    model, tokenizer = loaded(name, quantize)
    scorers = attention_scorers(model, tokenizer)
    scorers["pre_query"] |= {s: find_scorer(scale, data, s) for s in (ORACLE, ROUTER, WORDS, RECENCY, SHORT, RANDOM)}
    scorers["query_aware"] |= {s: find_scorer(scale, data, s) for s in (ORACLE, ROUTER, STEMS)}
    read = ((paper, read_paper(reader(scale), paper, "paragraph")) for paper in held_out_papers(scale, data))
    answering = (short_name(name, quantize), model, tokenizer)
    return run_paper_answers(NAME, scale, answering, read, scorers, setting.answer_budgets, setting.paper_questions)


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
        MINILM: minilm_scores,
        ORACLE: lambda: gold_first,
        LIKELIHOOD: lambda: question_likelihood(*loaded(SETTINGS[scale].reader)),
        RECENCY: lambda: last_first,
        SHORT: lambda: shortest_first,
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


def first_questions(documents: Sequence[Read], n: int) -> list[Read]:
    """The first question of every document in turn, then the second, until there are ``n``."""
    order = sorted((i, j) for j, d in enumerate(documents) for i in range(len(d.asked)))[:n]
    found = []
    for j, d in enumerate(documents):
        asked = [d.asked[i] for i, at in order if at == j]
        if asked:
            found.append(replace(d, asked=asked))
    return found

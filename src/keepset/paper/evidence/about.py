"""Whether a text is about a question at all: a paragraph's own questions, its article's others, another article's.

Measured on SQuAD dev. The threshold that is stored in keepset was chosen on other articles (``choose_threshold``).
"""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from keepset import seeds
from keepset.interventions import Fast
from keepset.labels.about import about_questions
from keepset.paper.bench.models import loaded
from keepset.paper.bench.timing import one_thread
from keepset.paper.evidence.documents import document_questions
from keepset.paper.evidence.units import DEV, RUN, TUNE, squad_questions, squad_sample
from keepset.paper.experiment import run_result
from keepset.paper.result import Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.text.squad import SquadQuestion

OWN, SAME, OTHER = "own", "same article", "other article"
KINDS = (OWN, SAME, OTHER)
UNANSWERED = "unanswered"
"""Asked of a document of our own that does not answer."""
OURS = "documents"
"""The split of those; nothing was chosen on them."""
DEV_DRAW = 902
"""Of the evaluation seeds. Earlier draws were looked at while the statistic and its threshold were chosen."""
WRONGLY = 0.04
"""Largest share of answerable tuning questions that may be refused. 0.05 is wanted on fresh ones; on the tuning
articles 0.03 would let a fifth of the same article's questions pass (docs/log.md)."""


def run_about(scale: str, name: str, data: Path, split: str, questions: int, part_size: int, part: int) -> RunResult:
    """One part of the sample: every paragraph with three questions."""
    everybody = squad_questions(data, split)
    chosen = list(enumerate(about_sample(data, split, questions)))[part * part_size : (part + 1) * part_size]
    asked = [
        (number, kind, paragraph.context, question)
        for number, paragraph in chosen
        for kind, question in asked_of(paragraph, everybody, number)
    ]
    return measured(scale, name, split, part, asked)


def about_sample(data: Path, split: str, n: int) -> list[SquadQuestion]:
    """Paragraphs with a question of their own; on dev another draw than the questions that tools are asked."""
    return squad_sample(data, split, n, draw=DEV_DRAW if split == DEV else 0)


def run_about_documents(scale: str, name: str) -> RunResult:
    """Every question of our own documents."""
    questions = enumerate(document_questions())
    asked = [(i, OWN if unit.gold else UNANSWERED, unit.context, unit.question) for i, unit in questions]
    return measured(scale, name, OURS, 0, asked)


def measured(scale: str, name: str, split: str, part: int, asked: Sequence[tuple[int, str, str, str]]) -> RunResult:
    """How much each text is about its question, of every (number, kind, context, question)."""
    started = time.monotonic()
    model, tokenizer = loaded(name)
    executor = Fast(model)
    found: list[Metric] = []
    with one_thread():
        for context, of_context in groupby(asked, key=lambda one: one[2]):
            together = list(of_context)
            values = about_questions(executor, tokenizer, context, [question for *_, question in together])
            for (number, kind, *_), about in zip(together, values, strict=True):
                parts = {"about": about.value, "likelier": about.likelier, "named": about.named, "gained": about.gained}
                at: dict[str, Coordinate] = {"kind": kind, "number": number}
                found += [Metric(what=what, at=at, value=value, n=1) for what, value in parts.items()]
    return run_result(
        "evidence",
        scale,
        started,
        at={"model": name, "questions": "about", "split": split, "part": part},
        config={"questions": "about", "split": split, "threads": 1},
        seeds={
            "evaluation": seeds.EVALUATION.seed(RUN, DEV_DRAW * (split == DEV)),
            "statistics": seeds.STATISTICS.seed(RUN),
        },
        counts={"questions": len(asked)},
        metrics=found,
        command=f"keepset bench evidence --data FOLDER --only {name}/about/{split}-{part}",
    )


def asked_of(paragraph: SquadQuestion, everybody: Sequence[SquadQuestion], number: int) -> Iterator[tuple[str, str]]:
    """The paragraph's own question, one of another paragraph of its article, and one of another article."""
    rng = random.Random(seeds.STATISTICS.seed(RUN, number))
    yield OWN, paragraph.question
    same = [q for q in everybody if q.article == paragraph.article and q.paragraph != paragraph.paragraph]
    if same:
        yield SAME, rng.choice(same).question
    yield OTHER, rng.choice([q for q in everybody if q.article != paragraph.article]).question


def shares(results: Results, model: str, split: str, kind: str) -> list[float]:
    """Of every question of a kind; none where that was not run."""
    found = results.select("about", model=model, split=split, kind=kind) if results else None
    return [] if found is None else [float(value) for value in found["value"]]


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """How often one of the first is over one of the second; ties count half."""
    wins = sum((a > b) + 0.5 * (a == b) for a in higher for b in lower)
    return wins / (len(higher) * len(lower))


def choose_threshold(results: Results, model: str) -> float:
    """The share under which a text is said not to answer: as high as refuses ``WRONGLY`` of the tuning questions.

    keepset.paper.evidence.about.choose_threshold(read_results(Path("results"), "small"), "smollm2-135m-instruct")
    """
    own = sorted(shares(results, model, TUNE, OWN))
    if not own:
        raise ValueError(f"threshold: expected results of the tuning articles for {model}, got none; run them first")
    allowed = int(WRONGLY * len(own))
    threshold = own[allowed]
    refused = {kind: sum(value < threshold for value in shares(results, model, TUNE, kind)) for kind in KINDS}
    counts = ", ".join(f"{kind} {refused[kind]} of {len(shares(results, model, TUNE, kind))}" for kind in KINDS)
    print(f"{model}: {threshold:.4f}; refused under it on the tuning articles: {counts}")
    return threshold


__all__ = ["DEV", "KINDS", "OTHER", "OWN", "SAME", "TUNE", "auc", "choose_threshold", "run_about", "shares"]

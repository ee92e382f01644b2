"""``keepset explain`` as a reader runs it: a paragraph, or 25 sentences of an article, a question, and what the model
itself replies.

Elsewhere every tool is given the gold answer. Here nobody is: the reply may be wrong, and may rest on another sentence
than the one that answers. So the two are told apart: is the gold sentence named where the reply has the gold answer,
and does the question point at it whatever the reply says?
"""

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.explain.explanation import explain
from keepset.explain.report import Report
from keepset.explain.words import missed
from keepset.models.quantize import Quantize
from keepset.paper.bench.engine.run import spend
from keepset.paper.bench.engine.tally import Spent
from keepset.paper.bench.models import loaded, short_name
from keepset.paper.bench.timing import one_thread
from keepset.paper.evidence.measure import mean, told
from keepset.paper.evidence.units import DEV, FILES, RUN, Unit, squad_sample
from keepset.paper.experiment import run_result
from keepset.paper.result import Metric, RunResult
from keepset.text.squad import read_articles

REPLIES, PARAGRAPH_REPLIES = "replies", "paragraph-replies"
SENTENCES = 25
DRAW = 903
"""Of the evaluation seeds."""
BAR = 15.0
"""CPU seconds of one thread that an explanation may take."""


@dataclass(frozen=True)
class Asked:
    """One question, and the answers of annotators."""

    context: str
    sentences: tuple[tuple[int, int], ...]
    question: str
    answers: tuple[str, ...]
    gold: int

    def answered_in(self, text: str) -> bool:
        """It has an annotator's answer in it, whatever its case."""
        return any(answer.lower() in text.lower() for answer in self.answers)


@dataclass(frozen=True)
class Explained:
    asked: Asked
    report: Report
    spent: Spent

    @property
    def right(self) -> bool:
        """The reply has the answer."""
        return self.asked.answered_in(self.report.said)

    @property
    def sentence_exactly(self) -> bool:
        """The first sentence of the reply that has an annotator's answer rests on the gold sentence and no other."""
        has_it = (part for part in self.report.parts if self.asked.answered_in(part.text))
        return any(part.evidence == (self.asked.gold,) for part in islice(has_it, 1))

    @property
    def named(self) -> bool:
        return self.asked.gold in self.report.evidence

    @property
    def exactly(self) -> bool:
        return self.report.evidence == (self.asked.gold,)

    @property
    def pointed(self) -> bool:
        return self.asked.gold == self.report.pointed

    @property
    def hint(self) -> int | None:
        """The block that the report says the question seems to be about; mostly it says nothing of the kind."""
        block = missed(self.report)
        return None if block is None else block.number


@lru_cache(maxsize=1)
def article_questions(data: Path) -> list[Asked]:
    """One question an article, in the order of the file; articles without one are left out."""
    rng = random.Random(seeds.EVALUATION.seed(RUN, DRAW))
    found = []
    for article in read_articles(data / FILES[DEV], SENTENCES):
        if not article.asked:
            continue
        asked = rng.choice(article.asked)
        begin, end = article.sentences[asked.sentences.start][0], article.sentences[asked.sentences.stop - 1][1]
        spans = tuple((start - begin, stop - begin) for start, stop in (article.sentences[i] for i in asked.sentences))
        gold = asked.gold - asked.sentences.start
        found.append(Asked(article.text[begin:end], spans, asked.question, asked.answers, gold))
    return found


def paragraph_questions(data: Path, n: int) -> list[Asked]:
    """Those of the comparison with other tools."""
    return [
        Asked(one.context, one.sentences, one.question, one.answers, one.gold) for one in squad_sample(data, DEV, n)
    ]


def questions_of(kind: str, data: Path, n: int) -> list[Asked]:
    return article_questions(data)[:n] if kind == REPLIES else paragraph_questions(data, n)


def article_units(data: Path) -> list[Unit]:
    """The same questions with the gold answer, for every tool."""
    return [
        Unit(f"article-{i}", one.context, one.question, one.answers[0], one.sentences, frozenset({one.gold}), i)
        for i, one in enumerate(article_questions(data))
    ]


def run_replies(
    scale: str, name: str, quantize: Quantize | None, data: Path, kind: str, size: int, part_size: int, part: int
) -> RunResult:
    """Explains the model's reply to every question of a part."""
    started = time.monotonic()
    model, tokenizer = loaded(name, quantize)
    chosen = questions_of(kind, data, size)[part * part_size : (part + 1) * part_size]
    with one_thread():
        explained = [explain_one(model, tokenizer, asked) for asked in chosen]
    return run_result(
        "evidence",
        scale,
        started,
        at={"model": short_name(name, quantize), "questions": kind, "part": part},
        config={"questions": kind, "threads": 1},
        seeds={"evaluation": seeds.EVALUATION.seed(RUN, DRAW)},
        counts={"questions": len(chosen), "sentences": sum(len(asked.sentences) for asked in chosen)},
        metrics=list(reply_metrics(explained)),
        command=f"keepset bench evidence --data FOLDER --only {short_name(name, quantize)}/{kind}/explain-{part}",
    )


def explain_one(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked) -> Explained:
    reports: list[Report] = []

    def work() -> None:
        # A busy machine is slow for a moment, and the estimate with it: that must not end a run of hours.
        reports.append(
            explain(model, tokenizer, asked.context, asked.question, blocks=asked.sentences, max_minutes=math.inf)
        )

    spent = spend(model, work)
    return Explained(asked, reports[0], spent)


def reply_metrics(explained: Sequence[Explained]) -> Iterator[Metric]:
    yield told("right", [one.right for one in explained])
    yield told("named", [one.named for one in explained])
    yield told("exactly", [one.exactly for one in explained])
    yield told("sentence_exactly", [one.sentence_exactly for one in explained])
    yield told("pointed", [one.pointed for one in explained])
    yield told("either", [one.named or one.pointed for one in explained])
    yield told("hinted", [one.hint is not None for one in explained])
    yield told("hinted_rightly", [one.hint == one.asked.gold for one in explained])
    yield told("in_text", [one.report.in_text for one in explained])
    yield told("quick", [one.spent.seconds < BAR for one in explained])
    yield mean("size", [len(one.report.evidence) for one in explained])
    yield mean("seconds", [one.spent.seconds for one in explained])
    yield mean("tokens", [one.spent.tokens for one in explained])

"""Whose evidence a router learns: the model that reads stays, the model that says what an answer rests on changes.

    marked     the sentence that annotators marked
    MODEL      what the marked answer rests on for MODEL, found by hiding (``keepset.label``)

The paper never moves a router across models. Here the small reader learns what a larger model rests on and is asked
for it on articles that nobody learned from. Labels are kept in the cache folder: a stopped run goes on.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.files import write_text
from keepset.jobs.label_data import label
from keepset.jobs.labelling import LabelRow
from keepset.jobs.stored import check_labels, stored_rows
from keepset.models.bundled import cache_folder
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import loaded, short_name
from keepset.paper.experiment import run_result
from keepset.paper.natural.corpus import SETTINGS, SPLITS, reads, squad_dev, squad_training
from keepset.paper.natural.documents import AskedOf, Read, articles
from keepset.paper.natural.measure import Scorer, among_best, clustered_share
from keepset.paper.natural.scorers import routed, stem_scores
from keepset.paper.natural.training import Lessons, Training, train_text_router
from keepset.paper.result import Metric, RunResult
from keepset.text.squad import SquadArticle

MARKED, NOBODY = "marked", "stems"
"""Whom a router learned from: the annotators; BM25 of first letters has learned from nobody."""
KEPT = 2
"""Sentences of sixteen."""


@dataclass(frozen=True)
class Rested:
    """What an answer rests on."""

    together: KeepSet
    """The smallest set that gives it."""
    others: KeepSet
    """Blocks that give it too, each alone."""

    def within(self, keep: KeepSet) -> bool:
        return self.together <= keep or bool(self.others & keep)


Found = Mapping[tuple[str, int], Rested]
"""Article and place of a question -> what its answer rests on; questions whose answer rests on nothing are missing."""


def run_transfer(experiment: str, scale: str, data: Path, models: Sequence[tuple[str, Quantize | None]]) -> RunResult:
    """Routers of every teacher's evidence, each asked for the evidence of every other."""
    started = time.monotonic()
    setting = SETTINGS[scale]
    lessons = [d for split in SPLITS for d in squad_training(scale, data, split)]
    unseen = squad_dev(scale, data)
    taught = first_of_each(articles(data, "train"), lessons, setting.transfer_lessons)
    asked = first_of_each(articles(data, "dev"), unseen, setting.transfer_questions)
    metrics: list[Metric] = []
    golds: dict[str, Callable[[str, int, AskedOf], Tensor | None]] = {MARKED: lambda _, place, own: own.gold}
    rested: dict[str, Found] = {}
    for model, quantize in models:
        name = short_name(model, quantize)
        found, rested[name] = labelled(taught, model, quantize), labelled(asked, model, quantize)
        golds[name] = _gold_of(found)
        metrics += agreement(asked, unseen, name, rested[name])
    scorers: dict[str, Scorer] = {NOBODY: stem_scores}
    for source, gold in golds.items():
        documents = list(relabelled(lessons, setting.transfer_lessons, gold))
        questions = [(own.features.numbers, own.gold) for d in documents for own in d.asked]
        if questions:
            router = train_text_router(reads(scale), setting.layers, Lessons([], questions, documents), Training())
            scorers[source] = routed(router)
            metrics.append(Metric(what="lessons", at={"source": source}, value=len(questions), n=len(questions)))
    for source, score in scorers.items():
        metrics += [replace_at(m, source=source) for m in among_best(unseen, score) if m.at["number"] == KEPT]
        metrics += [kept_share(unseen, score, found, source=source, of=name) for name, found in rested.items() if found]
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "transfer"},
        config={
            "reader": setting.reader,
            "layers": setting.layers,
            "labels": [short_name(*model) for model in models],
            "kept": KEPT,
        },
        seeds={"statistics": seeds.STATISTICS.seed(0), "router_init": seeds.ROUTER_INIT.seed(0)},
        counts={
            "training_articles": len(lessons),
            "training_questions": len(taught),
            "articles": len(unseen),
            "questions": len(asked),
        },
        metrics=metrics,
        command=f"keepset bench {experiment} --data FOLDER --only transfer",
    )


@dataclass(frozen=True)
class Asked:
    """A question of an article with the sixteen sentences it is asked of."""

    article: str
    place: int
    blocks: tuple[str, ...]
    question: str
    answer: str

    @property
    def row(self) -> str:
        """As ``keepset label`` reads it."""
        name = f"{self.article}/{self.place}"
        return json.dumps({"id": name, "blocks": self.blocks, "question": self.question, "answer": self.answer})


def first_of_each(found: Sequence[SquadArticle], read: Sequence[Read], n: int) -> list[Asked]:
    """The first questions of every article that the reader has read."""
    by_title = {article.title: article for article in found}
    asked = []
    for document in read:
        article = by_title[document.id]
        for place, own in enumerate(article.asked[:n]):
            said = tuple(article.said(own.sentences[i]).strip() for i in range(len(own.sentences)))
            asked.append(Asked(document.id, place, said, own.question, own.answers[0]))
    return asked


def labelled(asked: Sequence[Asked], model: str, quantize: Quantize | None) -> Found:
    """What each marked answer rests on for ``model``, given all sixteen sentences."""
    rows = "".join(f"{one.row}\n" for one in asked)
    digest = hashlib.sha256(rows.encode()).hexdigest()[:8]
    folder = cache_folder() / "transfer"
    data = folder / f"{digest}.jsonl"
    if not data.exists():
        write_text(data, rows)
    done = label(data, loaded(model, quantize), folder / f"{digest}-{short_name(model, quantize)}", shard_rows=16)
    names = {f"{one.article}/{one.place}": (one.article, one.place) for one in asked}
    return {names[row.id]: _rested(row) for row in stored_rows(done.folder, check_labels(done.folder)) if row.evidence}


def _rested(row: LabelRow) -> Rested:
    others = frozenset(row.others)
    return Rested(frozenset(row.evidence) - others, others)


def _gold_of(found: Found) -> Callable[[str, int, AskedOf], Tensor | None]:
    def gold(article: str, place: int, own: AskedOf) -> Tensor | None:
        rested = found.get((article, place))
        if rested is None:
            return None
        mask = torch.zeros_like(own.gold)
        mask[sorted(rested.together | rested.others)] = True
        return mask

    return gold


def relabelled(documents: Sequence[Read], n: int, gold: Callable[[str, int, AskedOf], Tensor | None]) -> Iterator[Read]:
    """The first questions of every document with another gold; those that have none are left out."""
    for document in documents:
        found = ((own, gold(document.id, place, own)) for place, own in enumerate(document.asked[:n]))
        yield replace(document, asked=[replace(own, gold=mask) for own, mask in found if mask is not None])


def agreement(asked: Sequence[Asked], documents: Sequence[Read], model: str, found: Found) -> list[Metric]:
    """How many answers rest on something, and of those how many on the marked sentence, alone or with others."""
    resting, marked = [], []
    for document in documents:
        places = [one.place for one in asked if one.article == document.id]
        golds = {place: int(document.asked[place].gold.nonzero()[0]) for place in places}
        own = {place: found[document.id, place] for place in places if (document.id, place) in found}
        resting.append((len(own), len(places)))
        marked.append((sum(golds[place] in r.together | r.others for place, r in own.items()), len(own)))
    shares = [clustered_share("rests", resting, of=model)]
    return shares + ([clustered_share("rests_on_marked", marked, of=model)] if found else [])


def kept_share(documents: Sequence[Read], score: Scorer, found: Found, **at: str) -> Metric:
    """Questions whose evidence is among the best sentences."""
    pairs = []
    for document in documents:
        hits = [
            rested.within(frozenset(score(document, document.asked[place]).topk(KEPT).indices.tolist()))
            for (article, place), rested in found.items()
            if article == document.id
        ]
        pairs.append((sum(hits), len(hits)))
    return clustered_share("evidence_kept", pairs, **at)


def replace_at(metric: Metric, **at: str) -> Metric:
    return metric.model_copy(update={"at": {**metric.at, **at}})

"""Passages that nobody wrote or chose for keepset, in ``evidence_found`` beside this package: see its SOURCES.md.

Each line of ``questions.jsonl`` there: ``text``, ``half``, ``question``, ``answer``, ``gold`` (a piece of each sentence
a reader would name: another way to cut sentences does not move it). Where the passage does not answer, the answer
is null and nothing is gold. How keepset cut the first half was looked at, and cutting changed; it was run on the second
only after that.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset.paper
from keepset.blocks import KeepSet
from keepset.explain.explanation import explain
from keepset.explain.report import Report
from keepset.explain.words import missed
from keepset.paper.bench.models import loaded
from keepset.paper.bench.timing import one_thread
from keepset.paper.evidence.measure import told
from keepset.paper.experiment import run_result
from keepset.paper.result import Metric, RunResult

FOUND = "found"
FOLDER = Path(keepset.paper.__file__).parent / "evidence_found"
OWN_REPLY, GIVEN = "own reply", "answer given"


@dataclass(frozen=True)
class Passage:
    """A question of a passage."""

    text: str
    half: int
    question: str
    answer: str | None
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """What ``keepset explain`` says to a question."""

    passage: Passage
    report: Report

    @property
    def gold(self) -> KeepSet:
        """The blocks that the pieces of the gold sentences end in."""
        ends = [self.passage.text.index(piece) + len(piece) for piece in self.passage.gold]
        return frozenset(
            block.number for block in self.report.blocks for end in ends if block.start < end <= block.stop
        )

    @property
    def exactly(self) -> bool:
        return frozenset(self.report.evidence) == self.gold

    @property
    def named(self) -> bool:
        return self.gold <= frozenset(self.report.evidence)

    @property
    def shown(self) -> bool:
        """A gold sentence is named, or pointed at in the report."""
        pointed = missed(self.report)
        return self.named or (pointed is not None and pointed.number in self.gold)

    @property
    def refused(self) -> bool:
        """The report begins with "This text does not seem to answer that"."""
        return self.report.about < self.report.about_threshold


@cache
def passages() -> list[Passage]:
    """Every question, in the order of the file."""
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = {name: (FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in {row["text"] for row in rows}}
    return [
        Passage(texts[row["text"]], row["half"], row["question"], row["answer"], tuple(row["gold"])) for row in rows
    ]


def run_found(scale: str, name: str, half: int, size: int) -> RunResult:
    """Explains the model's own reply to every question of a half, and the right answer where there is one."""
    started = time.monotonic()
    model, tokenizer = loaded(name)
    chosen = [passage for passage in passages() if passage.half == half][:size]
    with one_thread():
        found = {how: explained(model, tokenizer, chosen, how) for how in (OWN_REPLY, GIVEN)}
    return run_result(
        "evidence",
        scale,
        started,
        at={"model": name, "questions": FOUND, "half": half},
        config={"questions": FOUND, "threads": 1},
        seeds={},
        counts={"questions": len(chosen)},
        metrics=[metric for how, each in found.items() for metric in found_metrics(how, each)],
        command=f"keepset bench evidence --data FOLDER --only {name}/{FOUND}/half-{half}",
    )


def explained(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, chosen: Sequence[Passage], how: str
) -> list[Told]:
    asked = [passage for passage in chosen if how == OWN_REPLY or passage.answer]
    found = []
    for one in asked:
        given = one.answer if how == GIVEN else None
        report = explain(model, tokenizer, one.text, one.question, given, max_minutes=math.inf)
        found.append(Told(one, report))
    return found


def found_metrics(how: str, found: Sequence[Told]) -> Iterator[Metric]:
    """Shares over the questions that are answered; how often the others are refused; what was named of each."""
    answered = [one for one in found if one.gold]
    for what in ("exactly", "named", "shown", "refused"):
        yield told(what, [getattr(one, what) for one in answered], how=how)
    if unanswered := [one for one in found if not one.gold]:
        yield told("refused_unanswered", [one.refused for one in unanswered], how=how)
    for one in found:
        at = {"how": how, "question": one.passage.question, "gold": _numbers(one.gold)}
        named = _numbers(frozenset(one.report.evidence))
        yield Metric(what="found", at={**at, "named": named}, value=float(one.exactly), n=1)


def _numbers(blocks: KeepSet) -> str:
    return " ".join(map(str, sorted(blocks))) or "none"

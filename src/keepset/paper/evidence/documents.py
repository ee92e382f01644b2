"""Documents of our own, in ``evidence_documents`` beside this package: a contract, a meeting log, an encyclopedia page.

Each line of ``questions.jsonl`` there: ``document``, ``question``, ``answer``, ``gold`` (sentence numbers), ``kind``.
Where the document does not answer, the answer is null and no sentence is gold.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import keepset.paper
from keepset.paper.evidence.measure import Outcome, Truth
from keepset.paper.evidence.units import Unit
from keepset.paper.result import Metric

FOLDER = Path(keepset.paper.__file__).parent / "evidence_documents"


@cache
def document_questions() -> list[Unit]:
    """Every question of every document, in the order of the file; none where there are no documents."""
    path = FOLDER / "questions.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    units = []
    for i, row in enumerate(rows):
        name = Path(row["document"]).stem
        text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
        gold = frozenset([row["gold"]] if isinstance(row["gold"], int) else row["gold"])
        units.append(Unit(f"{name}: {row['kind']}", text, row["question"], row["answer"] or "", None, gold, i))
    return units


def document_units() -> list[Unit]:
    """The questions that their document answers."""
    return [unit for unit in document_questions() if unit.gold]


def outcome_of_each(truths: Sequence[Truth], outcomes: Sequence[Outcome]) -> Iterator[Metric]:
    """One number per question: so few that a reader may want to see which ones failed."""
    for truth, outcome in zip(truths, outcomes, strict=True):
        yield Metric(
            what="question",
            at={
                "document": truth.task.unit.id,
                "question": truth.task.unit.question,
                "gold": numbers(outcome.gold),
                "chosen": numbers(outcome.found.chosen),
                "first": outcome.first,
            },
            value=float(outcome.exactly),
            n=1,
        )


def numbers(sentences: frozenset[int]) -> str:
    return " ".join(map(str, sorted(sentences))) or "none"

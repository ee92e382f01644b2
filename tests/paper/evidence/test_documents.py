"""Documents of our own: read from their folder, and the questions that fail are listed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepset.paper.bench.engine.tally import Spent
from keepset.paper.bench.models import tiny_model
from keepset.paper.evidence import documents
from keepset.paper.evidence.measure import Outcome, metrics, truth_of
from keepset.paper.evidence.run import DOCUMENTS
from keepset.paper.evidence.tables import KEEPSET, documents_table
from keepset.paper.evidence.tools import Found
from keepset.paper.evidence.units import Task, Unit
from keepset.paper.result import RunResult
from keepset.paper.results import Results

TEXT = "The rent is 900. It is due on Friday. Amendment: the rent is 950."
ROWS = [
    {"document": "contract", "question": "What is the rent?", "answer": "950", "gold": [2], "kind": "amendment"},
    {"document": "contract.txt", "question": "When is it due?", "answer": "Friday", "gold": 1, "kind": "plain"},
    {"document": "contract", "question": "Who is the mayor?", "answer": None, "gold": [], "kind": "not-answerable"},
]


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Unit]]:
    monkeypatch.setattr(documents, "FOLDER", tmp_path)
    documents.document_questions.cache_clear()
    assert documents.document_units() == [], "none are needed"
    documents.document_questions.cache_clear()
    (tmp_path / "contract.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n", encoding="utf-8")
    yield documents.document_units()
    documents.document_questions.cache_clear()


def test_documents_are_read_from_their_folder(units: list[Unit]) -> None:
    assert [unit.id for unit in units] == ["contract: amendment", "contract: plain"]
    assert [unit.gold for unit in units] == [{2}, {1}]
    assert documents.document_questions()[2].gold == frozenset(), "asked only whether the text is about it"
    _, tokenizer = tiny_model()
    assert Task(units[0], tokenizer).example.block_texts[2] == "Amendment: the rent is 950."


def test_questions_that_fail_are_listed(units: list[Unit]) -> None:
    model, tokenizer = tiny_model()
    truths = [truth_of(unit, model, tokenizer) for unit in units]
    said = [Found((1.0, 0.0, 2.0), frozenset({0, 2})), Found((0.0, 1.0, 0.0), frozenset({1}))]
    outcomes = [Outcome(unit.gold, one, Spent(0, 0, 0), (0, 0), 0) for unit, one in zip(units, said, strict=True)]
    run = RunResult(
        experiment="evidence",
        scale="smoke",
        at={"model": "tiny", "questions": DOCUMENTS, "tool": KEEPSET, "part": 0},
        command="",
        config={},
        seeds={},
        commit="",
        versions={},
        counts={},
        seconds=0,
        metrics=(*metrics(outcomes), *documents.outcome_of_each(truths, outcomes)),
    )
    table = documents_table(Results({"evidence/tiny": run}))
    ((_, _, n, first, exactly, *_),) = table.rows
    assert (n, first[:4], exactly[:4]) == ("2", "1.00", "0.50")
    assert table.notes[1:] == ("Missed by tiny, contract: amendment: What is the rent? Gold 2 (first), named 0 2.",)

"""What a visitor asks: a report, or a sentence that says why not."""

import re

import pytest

from keepset.explain import plan
from keepset.explain.report import Report
from keepset.explore.asking import Refusal, ask
from keepset.explore.explorer import Explorer, Limits, OutOfTime, watched
from keepset.explore.samples import SAMPLES, Sample
from tests.explore.tiny_explorer import tiny_explorer

DOCUMENT = "The code for NARO is 4821. The code for BELU is 3390. No code is new."
QUESTION = "What is the code for NARO?"


def silent(share: float) -> None:
    pass


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return tiny_explorer()


def asked(explorer: Explorer, document: str = DOCUMENT, question: str = QUESTION, however_long: bool = False) -> object:
    return ask(explorer, document, question, False, however_long, silent)


def test_a_report_with_attention_and_progress(explorer: Explorer) -> None:
    shares: list[float] = []
    report = ask(explorer, DOCUMENT, QUESTION, False, False, shares.append)
    assert isinstance(report, Report)
    assert report.effort == "evidence"
    assert all(block.attention is not None for block in report.blocks)
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert 0.3 < shares[-1] <= 1.0


def test_every_sentence_hidden_says_what_is_needed(explorer: Explorer) -> None:
    report = ask(explorer, DOCUMENT, QUESTION, True, False, silent)
    assert isinstance(report, Report)
    assert report.effort == "exact"


@pytest.mark.parametrize(
    ("document", "question", "said"),
    [
        (" \n", QUESTION, "There is no document yet"),
        (DOCUMENT, " ", "There is no question yet"),
        ("a" * 101, QUESTION, r"The document has 101 characters; this page takes at most 100\."),
        (DOCUMENT, "a" * 51, r"The question has 51 characters; this page takes at most 50\."),
        ("Word. " * 16, "Who?", "positions|tokens"),
    ],
)
def test_what_cannot_be_asked_is_refused_for_good(document: str, question: str, said: str) -> None:
    explorer = tiny_explorer(Limits(characters=100, question_characters=50))
    explorer.model.config.max_position_embeddings = 90
    found = asked(explorer, document, question)
    assert isinstance(found, Refusal)
    assert not found.may_go_on
    assert re.search(said, found.said)


def test_a_long_document_is_refused_with_its_cost_and_may_go_on(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (0.1, 0.1))
    found = asked(explorer)
    assert isinstance(found, Refusal)
    assert found.may_go_on
    assert "3 sentences" in found.said
    assert "at most about" in found.said
    assert isinstance(asked(explorer, however_long=True), Report)


def test_one_that_is_too_long_for_a_page_is_never_begun(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (100.0, 100.0))
    found = asked(explorer, however_long=True)
    assert isinstance(found, Refusal)
    assert not found.may_go_on
    assert "keepset explain --yes" in found.said


def test_work_is_stopped_when_the_estimate_was_wrong(explorer: Explorer) -> None:
    tokens = explorer.tokenizer("a", return_tensors="pt")["input_ids"]
    with pytest.raises(OutOfTime, match="and was stopped"), watched(explorer.model, 10, -1.0, silent):
        explorer.model(tokens)
    assert not explorer.model._forward_hooks


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_example_is_a_document_with_a_question(sample: Sample) -> None:
    assert 300 < len(sample.text) < 2000
    assert sample.question.endswith("?")
    assert sample.look.endswith(".")

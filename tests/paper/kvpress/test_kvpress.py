"""kvpress's side of the comparison, without kvpress: the same tokens and the same rule of what is an answer."""

import pytest

from keepset.paper.bench.models import tiny_model
from keepset.paper.kvpress.experiment import EXPERIMENT, metrics, question_sheet, run
from keepset.paper.kvpress.peer import survives
from keepset.policies import Recency
from keepset.pruning import Pruner
from keepset.quickstart import Fact, FactSheet
from keepset.text.prompt import prompt_tokens

TEXT = "\n".join(f"The code for NARO{i} is {1000 + 37 * i}." for i in range(6))


def test_with_nothing_dropped_it_reads_and_judges_as_the_pruner_does() -> None:
    model, tokenizer = tiny_model()
    whole = Pruner(model, tokenizer, Recency(), blocks="line").prune(TEXT, 1.0)
    question = "What is the code for NARO2?"
    said = whole.ask(question, 2)
    facts = FactSheet(TEXT, tuple(Fact(question, answer, 2) for answer in (said or "x", "1074", "nothing")))
    sheet = question_sheet(tokenizer, facts)
    for asked in sheet["questions"]:
        assert [*sheet["tokens"], *asked["tokens"]] == prompt_tokens(tokenizer, TEXT, question)
    found, seconds = survives(model, None, sheet)
    assert found == [whole.gives(fact.question, fact.answer) for fact in facts.facts]
    assert seconds > 0


def test_shares_are_of_what_the_model_answers_from_everything() -> None:
    outcomes = {
        "dense": [[True, False], [True, True]],
        "kept": {"0.1": [[False, True], [True, True]], "0.25": [[True, False], [True, True]]},
        "seconds": {"dense": 2.0, "0.1": 10.0, "0.25": 9.0},
    }
    tenth, prefills, quarter, _ = metrics(outcomes)
    assert (tenth.value, tenth.n) == (pytest.approx(2 / 3), 3)
    assert (quarter.value, quarter.n) == (1.0, 3)
    assert (tenth.each, quarter.each) == ("0.11", "1.11")
    assert prefills.value == 5.0


def test_without_the_environment_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVPRESS_PYTHON", raising=False)
    assert list(EXPERIMENT.jobs("small"))[:2] == ["kvpress/smollm2-135m-instruct-0", "kvpress/smollm2-135m-instruct-1"]
    with pytest.raises(ValueError, match="KVPRESS_PYTHON: expected a Python that has kvpress, got none"):
        run("small", 0)

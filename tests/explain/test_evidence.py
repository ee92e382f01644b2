"""Which blocks are named when a rule says what each keep set answers."""

from collections.abc import Callable

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.explain import explanation
from keepset.explain.answer import Writer
from keepset.interventions import Fast
from keepset.labels.about import LIKELIER, About
from keepset.text.example import text_example
from tests.explain.subject import CONTEXT, QUESTION, Rule, shown


def test_two_copies(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: bool(keep & {1, 3}))
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    (part,) = report.parts
    assert (part.evidence, part.others) == ((1,), (3,))
    assert report.cited() == "4821 [1 or 3]"
    assert "Block 1 is enough alone; 3 says it too." in shown(report)
    without = Writer(Fast(model), tokenizer, text_example(tokenizer, CONTEXT, QUESTION, "4821"))
    assert report.replies.without_evidence == without.beginning(frozenset({0, 2, 4}), 2)


def test_two_needed_and_two_that_stand_in_for_them(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: keep >= {0, 1} or keep >= {2, 4})
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", effort="exact", max_new_tokens=2)
    assert report.parts[0].evidence == (0, 1)
    text = shown(report)
    assert "Blocks 0 and 1 together are enough; no single block is." in text
    assert "Without them the rest of the text still restores 100%." in text
    assert "Nothing else" not in text


def test_all_blocks_needed(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: len(keep) == 5)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert report.parts[0].evidence == (0, 1, 2, 3, 4)


def test_an_answer_that_needs_no_context(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: True)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.evidence, report.in_text, report.replies.only_evidence) == ((), False, None)
    assert "The reply does not rest on this text." in shown(report), "it names what is asked about"
    assert "adds little" in shown(report)


@pytest.mark.parametrize(("share", "in_text"), [(0.9, True), (-0.1, False)])
def test_a_text_about_something_else(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    answer_when: Callable[[Rule], None],
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    in_text: bool,
) -> None:
    answer_when(lambda keep: 2 in keep)
    monkeypatch.setattr(explanation, "about_answer", lambda *_: About(share / LIKELIER, 0.0, 0.0))
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.about, report.in_text) == (pytest.approx(share), in_text)
    assert report.evidence == (2,), "shown below all the same"

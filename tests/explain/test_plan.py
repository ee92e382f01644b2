"""What an explanation will cost is said first, and refused when it is too much."""

import io
import math

import pytest
from rich.console import Console
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.explain import plan
from keepset.explain.explanation import first_word
from keepset.labels.support import Support
from keepset.terminal import one_line, print_line
from keepset.text.example import text_example
from tests.explain.subject import CONTEXT, QUESTION
from tests.tiny import tiny_llama


@pytest.mark.parametrize("effort", ["evidence", "exact"])
def test_the_estimate_holds_everything(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, effort: str) -> None:
    context = " ".join(f"The code for BELU is {i}." for i in range(10, 30))
    report = keepset.explain(model, tokenizer, context, QUESTION, "NARO is 4821", effort=effort, max_new_tokens=8)  # type: ignore[call-overload]
    example = text_example(tokenizer, context, QUESTION, "NARO is 4821")
    planned = plan.make_plan(model, example, len(example.answer), effort, effort != "evidence")  # type: ignore[arg-type]
    most = planned.tokens + planned.more_tokens + planned.steps
    assert 0.4 * most < report.cost.tokens < 1.1 * most


def test_ten_thousand_sentences_are_refused_with_their_cost(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, context = tiny_llama(positions=1_000_000), "The code is 4821. " * 10_000
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (1e-3, 1e-3))
    with pytest.raises(
        ValueError, match=r"cost: expected at most 10 minutes, got an estimate of \d+ (minutes|hours) for 10,000 blocks"
    ):
        keepset.explain(model, tokenizer, context, QUESTION)


def test_no_limit_goes_on(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (10.0, 10.0))
    with pytest.raises(ValueError, match=r"or go on with --yes \(max_minutes=math.inf\)"):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821")
    assert keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=1, max_minutes=math.inf).blocks


def test_several_questions_are_refused_before_the_first_is_explained(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished would be lost with the one that is refused."""
    seconds = iter([1e-6, 10.0, 10.0])
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (next(seconds), 1e-6))
    reports = keepset.explain(model, tokenizer, CONTEXT, [QUESTION, QUESTION], max_new_tokens=1)
    assert len(reports) == 2, "the machine became slow after it had been judged"
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (10.0, 10.0))
    written = []
    monkeypatch.setattr("keepset.explain.explanation.Writer", lambda *_: written.append(1))
    with pytest.raises(ValueError, match="cost: expected at most 10 minutes"):
        keepset.explain(model, tokenizer, CONTEXT, [QUESTION, QUESTION], max_new_tokens=1)
    assert not written


def test_the_plan_comes_first_and_the_bar_goes(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    quiet, watched = (Console(force_terminal=terminal, record=True, width=200) for terminal in (False, True))
    for console in (quiet, watched):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=1, console=console)
        assert "5 blocks, " in console.export_text(clear=False)
        assert "tokens: at most about " in console.export_text(clear=False)
        assert "evidence: " in console.export_text(clear=False), "said before the short replies are written"
    assert len(quiet.export_text().splitlines()) == 2
    assert not model._forward_hooks


def test_a_reply_of_the_models_own_is_shown_before_its_evidence_is_looked_for(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, max_new_tokens=4, console=console)
    plan_line, reply_line, *_ = console.export_text().splitlines()
    assert "at most about" in plan_line
    assert reply_line == f"reply: {one_line(report.replies.everything)}"


def test_a_plan_says_what_may_come_on_top_where_it_is_told_apart() -> None:
    def said(more_tokens: int) -> str:
        return plan.Plan(5, 100, 200, more_tokens, 0, seconds_per_token=1.0, seconds_per_step=0.0).sentence()

    assert said(600).endswith("at most about 3 minutes, or 13 minutes where no block is enough alone")
    assert said(0).endswith("at most about 3 minutes")


def test_evidence_is_named_before_the_short_replies_and_steers_no_terminal(tokenizer: PreTrainedTokenizerBase) -> None:
    prompt = text_example(tokenizer, "The cat [b]is[/b] \x1b[31mgrey. " + "NARO is 48 and more. " * 9, QUESTION, [0])
    console = Console(record=True, width=40, file=io.StringIO())
    print_line(console, first_word(prompt, Support(9.0, evidence=frozenset({0, 2}), enough=True)))
    assert console.export_text() == "evidence: [0] The cat [b]is[/b] \\x1b[31mgrey.; [2] NARO is 48 and more.\n"

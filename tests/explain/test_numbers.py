"""The numbers of a report are those of the reference executor."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.explain.answer import Writer
from keepset.explain.explanation import short_replies
from keepset.explain.plan import SHORT_REPLY
from keepset.interventions import Fast, Reference
from keepset.labels.about import about_questions
from keepset.labels.support import find_support
from keepset.labels.worth import Answer
from keepset.text.example import text_example
from tests.explain.subject import CONTEXT, QUESTION


@pytest.mark.parametrize("effort", ["evidence", "exact"])
def test_the_numbers_are_those_of_the_reference(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, effort: str
) -> None:
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", effort=effort, max_new_tokens=4)  # type: ignore[arg-type]
    executor = Reference(model)
    prompt = text_example(tokenizer, CONTEXT, QUESTION, "4821")
    expected = find_support(Answer(prompt, executor), effort=effort)  # type: ignore[arg-type]
    (part,) = report.parts
    assert not report.generated
    assert part.text == report.said == "4821"
    assert part.worth == pytest.approx(expected.worth, abs=1e-4)
    assert part.restored == pytest.approx(expected.restored, rel=1e-4, abs=1e-4)
    assert part.carried == pytest.approx(expected.carried, rel=1e-4, abs=1e-4)
    assert frozenset(part.evidence) == (expected.evidence if expected.enough else frozenset())
    assert report.about == pytest.approx(about_questions(executor, tokenizer, CONTEXT, [QUESTION])[0].value, abs=1e-5)
    writer = Writer(executor, tokenizer, prompt)
    assert report.replies.everything == writer.beginning(writer.everything, 4)
    kept = frozenset(report.evidence)
    if kept:
        assert report.replies.only_evidence == writer.beginning(kept, min(4, SHORT_REPLY))
    if effort == "exact":
        rows = attention_rows(model, prompt.tokens.tolist() + list(prompt.answer[:-1]), len(prompt.tokens) - 1)
        masses = [float(rows[span.start : span.stop].sum()) for span in prompt.blocks]
        assert [block.attention for block in report.blocks] == pytest.approx(masses, abs=1e-5)
    else:
        assert all(block.attention is None for block in report.blocks)


def test_the_reply_from_the_block_that_the_question_points_at_is_what_that_block_alone_gives(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    prompt = text_example(tokenizer, CONTEXT, QUESTION, "4821")
    writer = Writer(Reference(model), tokenizer, prompt)
    alone = short_replies(Writer(Fast(model), tokenizer, prompt), [], 4, pointed=1).only_pointed
    assert alone == writer.beginning(frozenset({1}), 4)
    assert short_replies(writer, [], 4).only_pointed is None


def attention_rows(model: PreTrainedModel, tokens: list[int], first: int) -> Tensor:
    """(T,) of the rows from ``first`` on, mean over rows, layers and heads."""
    with torch.no_grad():
        model.set_attn_implementation("eager")
        layers = model(torch.tensor([tokens]), output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
    return torch.stack(layers).mean((0, 1, 2))[first:].mean(0)

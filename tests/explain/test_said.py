"""What is explained: a reply, sentence by sentence, or the span of it that was asked for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.blocks import KeepSet
from keepset.explain import answer as answers
from keepset.explain import explanation
from keepset.explain.answer import decode, find_said, whole_words
from keepset.labels.worth import Answer
from keepset.text.example import text_example
from tests.explain.subject import CONTEXT, QUESTION
from tests.tokenizers import word_tokenizer


def test_a_reply_is_explained_sentence_by_sentence(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, replies: Callable[[str], None]
) -> None:
    replies("The code is 4821. The code is now 7154. No")
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION)
    assert [part.text for part in report.parts] == ["The code is 4821.", "The code is now 7154.", "No"]
    assert report.generated
    assert "".join(report.said[part.start : part.stop] for part in report.parts) == report.said


@pytest.mark.parametrize(
    ("reply", "given", "parts", "read"),
    [
        ("The code is 4821. What is it now? 7154", None, ["The code is 4821. ", "What is it now? ", "7154"], None),
        (" The code is 4821.", None, [" The code is 4821."], None),
        ("It is 7. NARO is 48. It is 7. IT is 7. No", None, ["It is 7. ", "NARO is 48. ", "No"], None),
        ("Dr. NARO is 48", None, ["Dr. NARO is 48"], None),
        ("- NARO\n- BELU\n", None, ["- NARO\n", "- BELU\n"], None),
        ("Naïve 🎉! No", None, ["Naïve 🎉! ", "No"], None),
        ("The code for NARO is 4821. No", " 4821 ", ["4821"], "The code for NARO is 4821"),
        ("4821 and 4821", "4821", ["4821"], "4821"),
        ("The code for NARO is 4821.", "7154", ["7154"], "7154"),
        ("", "It is 7154. No", ["It is 7154. ", "No"], "It is 7154. No"),
    ],
)
def test_what_is_explained(
    tokenizer: PreTrainedTokenizerBase, reply: str, given: str | None, parts: list[str], read: str | None
) -> None:
    prompt = text_example(tokenizer, CONTEXT, QUESTION, given or [0])
    said = find_said(tokenizer, tuple(tokenizer(reply)["input_ids"]), given, prompt)
    assert [said.text[part.start : part.stop] for part in said.parts] == parts
    assert decode(tokenizer, said.tokens) == (reply if read is None else read)
    used = [i for part in said.parts for i in range(part.tokens.start, part.tokens.stop)]
    assert len(used) == len(set(used)), "no token belongs to two parts"
    for part, text in zip(said.parts, parts, strict=True):
        assert text.strip() in decode(tokenizer, said.tokens[part.tokens])


@pytest.mark.parametrize(
    ("reply", "parts", "read"),
    [
        ("It is 7. NARO is 48", ["It is 7. "], "It is 7."),
        ("It is 7. NARO is 48.", ["It is 7. ", "NARO is 48."], "It is 7. NARO is 48."),
        ("NARO is 48", ["NARO is 48"], "NARO is 48"),
    ],
)
def test_half_a_sentence_is_not_explained_where_the_model_would_have_written_more(
    tokenizer: PreTrainedTokenizerBase, reply: str, parts: list[str], read: str
) -> None:
    prompt = text_example(tokenizer, CONTEXT, QUESTION, [0])
    said = find_said(tokenizer, tuple(tokenizer(reply)["input_ids"]), None, prompt, goes_on=True)
    assert [said.text[part.start : part.stop] for part in said.parts] == parts
    assert said.text == reply, "it is shown all the same"
    assert decode(tokenizer, said.tokens) == read


def test_a_sentence_the_text_only_colours_is_not_looked_into(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    replies: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies("NARO is 4821. Is it up now?")
    read: list[int] = []

    class Coloured(Answer):
        """The first sentence gains 2.5 nats a letter, the second 0.6: its longest word has three."""

        def _ask(self, keeps: list[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:  # type: ignore[override]
            first = len(tokenizer("NARO is 4821.")["input_ids"])
            for keep in keeps:
                read.append(len(tokens))
                gain = torch.tensor([2.5 if i < first else 0.4 for i in range(len(tokens))])
                into[keep] = torch.cat([torch.full((len(self.lead),), -1.0), gain * (0 in keep) - 3.0])

    monkeypatch.setattr(explanation, "Answer", Coloured)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION)
    assert [part.spoken for part in report.parts] == [True, False]
    assert report.parts[0].evidence == (0,)
    assert report.parts[1].worth == 0, "no token gains enough to count"
    assert max(read[2:]) < read[0], "what comes after is not read under every keep set"


def test_several_questions_give_several_reports(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    asked = [QUESTION, "What is the code for BELU?"]
    reports = keepset.explain(model, tokenizer, CONTEXT, asked, max_new_tokens=2)
    assert [report.question for report in reports] == asked
    alone = keepset.explain(model, tokenizer, CONTEXT, asked[1], max_new_tokens=2)
    assert reports[1].parts == alone.parts
    with pytest.raises(ValueError, match="answer: expected none with several questions, got '4821'"):
        keepset.explain(model, tokenizer, CONTEXT, asked, "4821")  # type: ignore[call-overload]


def test_without_a_chat_template_a_reply_is_a_line(model: PreTrainedModel) -> None:
    words = word_tokenizer()
    report = keepset.explain(model, words, "The code is 4. The code is 7.", "What is the code?", max_new_tokens=8)
    assert "\n" not in report.said
    assert len(report.blocks) == 2


def test_a_model_that_writes_nothing(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "turn_ends", lambda model, tokenizer: frozenset(range(400)))
    with pytest.raises(ValueError, match="answer: expected the model to write one, got nothing before the end"):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION)


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        ("lit on 3 October 189", "lit on 3 October"),
        ("It was lit. It", "It was lit."),
        ("It was lit.", "It was lit."),
        ("Supercali", "Supercali"),
        ("", ""),
    ],
)
def test_a_reply_that_goes_on_is_cut_between_words(cut: str, shown: str) -> None:
    assert whole_words(cut) == shown

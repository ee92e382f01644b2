"""Odd documents are explained, bad input is refused in one line."""

import json
from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.explain import explanation
from keepset.explain.report import Report
from keepset.text.reading import read_context
from tests.explain.subject import CONTEXT, QUESTION, shown


@pytest.mark.parametrize(
    ("context", "blocks", "n"),
    [
        ("The code is 4821.", "sentence", 1),
        ("a\nb", "line", 2),
        ("東京は首都です。🎉！次", "sentence", 3),
        ("one\r\n\r\ntwo", "paragraph", 2),
        (CONTEXT, "8 tokens", None),
        (CONTEXT, [(4, 8), (30, 41)], 2),
    ],
)
@pytest.mark.parametrize("effort", ["evidence", "exact", "grouped", "certified"])
def test_odd_documents(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, context: str, blocks: str, n: int | None, effort: str
) -> None:
    report = keepset.explain(model, tokenizer, context, QUESTION, "4821", blocks, effort, max_new_tokens=2)  # type: ignore[arg-type]
    assert n is None or len(report.blocks) == n
    again = Report.model_validate(json.loads(json.dumps(report.to_dict(), allow_nan=False)))
    assert again == report
    assert shown(again, width=40)
    assert again.to_html() == report.to_html()
    assert len(again.to_pandas()) == len(report.blocks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context": "The code is 4821. " * 400}, "context: expected at most 512 positions .* shorten the context"),
        ({"context": " "}, "context: expected some text"),
        ({"question": ""}, "question: expected some text"),
        ({"answer": "\n"}, "answer: expected some text"),
        ({"effort": "fast"}, "effort: expected one of evidence, exact, grouped, certified, got 'fast'"),
        ({"blocks": "word"}, "blocks: expected 'sentence'"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected at least 1, got 0"),
    ],
)
def test_bad_input(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, arguments: dict[str, object], message: str
) -> None:
    good: dict[str, object] = {"context": CONTEXT, "question": QUESTION}
    with pytest.raises(ValueError, match=message):
        keepset.explain(model, tokenizer, **(good | arguments))  # type: ignore[call-overload]


def test_a_file_must_be_text(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(b"\xef\xbb\xbfOne.\r\n")
    assert read_context(path) == "One.\r\n"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"page.txt: expected a text file in UTF-8"):
        read_context(path)
    with pytest.raises(ValueError, match=r"gone.txt: expected a text file, or - for standard input, got: No such file"):
        read_context(tmp_path / "gone.txt")


def test_the_function_stays_where_it_is_looked_up() -> None:
    """The package has the function's name, and calling it is calling the function."""
    assert keepset.explain.explain is explanation.explain  # type: ignore[attr-defined]
    assert keepset.explain.explain_file is explanation.explain_file  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        keepset.explain.explian  # type: ignore[attr-defined]  # noqa: B018

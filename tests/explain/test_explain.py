"""``keepset.explain`` on tiny real models: against what the reference reads, and every odd document."""

import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.blocks import KeepSet
from keepset.cli import main
from keepset.explain import answer as answers
from keepset.explain import explanation, plan
from keepset.explain.answer import Writer, decode, find_said
from keepset.explain.plan import SHORT_REPLY
from keepset.explain.report import Report
from keepset.interventions import Fast, Reference
from keepset.labels.about import question_share
from keepset.labels.support import Answer, find_support
from keepset.text.example import text_example
from keepset.text.reading import read_context
from tests.tokenizers import byte_tokenizer, word_tokenizer

CONTEXT = "The code for NARO is 4821. The code for BELU is 3390.\nNaïve 🎉! The code is now 7154. No"
QUESTION = "What is the code for NARO?"


def tiny(positions: int = 512) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = LlamaConfig(
            vocab_size=400,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=positions,
            initializer_range=0.4,
            eos_token_id=1,
        )
        return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return byte_tokenizer()


Rule = Callable[[KeepSet], bool]


@pytest.fixture
def answer_when(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rule], None]:
    """Decides by the keep set alone whether the answer is given; nothing is read."""

    def use(rule: Rule) -> None:
        class Ruled(Answer):
            def _ask(self, keeps: list[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:  # type: ignore[override]
                for keep in keeps:
                    into[keep] = torch.full((len(tokens),), -0.5 if rule(keep) else -3.0)

        monkeypatch.setattr(explanation, "Answer", Ruled)

    return use


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch, tokenizer: PreTrainedTokenizerBase) -> Callable[[str], None]:
    """Decides what the model writes."""

    def use(text: str) -> None:
        tokens = tuple(tokenizer(text)["input_ids"])
        monkeypatch.setattr(Writer, "tokens", lambda self, keep, most: tokens[:most])

    return use


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
    assert part.restored == pytest.approx(expected.restored, abs=1e-4)
    assert part.carried == pytest.approx(expected.carried, abs=1e-4)
    assert frozenset(part.evidence) == (expected.evidence if expected.enough else frozenset())
    assert report.about == pytest.approx(question_share(executor, tokenizer, CONTEXT, QUESTION), abs=1e-5)
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


def attention_rows(model: PreTrainedModel, tokens: list[int], first: int) -> Tensor:
    """(T,) of the rows from ``first`` on, mean over rows, layers and heads."""
    with torch.no_grad():
        model.set_attn_implementation("eager")
        layers = model(torch.tensor([tokens]), output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
    return torch.stack(layers).mean((0, 1, 2))[first:].mean(0)


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


def test_a_sentence_the_text_only_colours_is_not_looked_into(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    replies: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies("NARO is 4821. What is it now?")
    read: list[int] = []

    class Coloured(Answer):
        """The first sentence gains 2.5 nats a token, the second 1.5."""

        def _ask(self, keeps: list[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:  # type: ignore[override]
            first = len(tokenizer("NARO is 4821.")["input_ids"])
            for keep in keeps:
                read.append(len(tokens))
                gain = torch.tensor([2.5 if i < first else 1.5 for i in range(len(tokens))])
                into[keep] = gain * (0 in keep) - 3.0

    monkeypatch.setattr(explanation, "Answer", Coloured)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION)
    assert [part.spoken for part in report.parts] == [True, False]
    assert report.parts[0].evidence == (0,)
    assert report.parts[1].worth > 1.5
    assert max(read[2:]) < read[0], "what comes after is not read under every keep set"


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
    assert "This text does not seem to answer that." in shown(report)
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
    monkeypatch.setattr(explanation, "question_share", lambda *_: share)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.about, report.in_text) == (share, in_text)
    assert report.evidence == (2,), "shown below all the same"


def test_several_questions_give_several_reports(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    asked = [QUESTION, "What is the code for BELU?"]
    reports = keepset.explain(model, tokenizer, CONTEXT, asked, max_new_tokens=2)
    assert [report.question for report in reports] == asked
    alone = keepset.explain(model, tokenizer, CONTEXT, asked[1], max_new_tokens=2)
    assert reports[1].parts == alone.parts
    with pytest.raises(ValueError, match="answer: expected none with several questions, got '4821'"):
        keepset.explain(model, tokenizer, CONTEXT, asked, "4821")  # type: ignore[call-overload]


def test_without_a_chat_template_a_reply_is_a_line() -> None:
    words = word_tokenizer()
    report = keepset.explain(tiny(), words, "The code is 4. The code is 7.", "What is the code?", max_new_tokens=8)
    assert "\n" not in report.said
    assert len(report.blocks) == 2


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


@pytest.mark.parametrize("effort", ["evidence", "exact"])
def test_the_estimate_holds_everything(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, effort: str) -> None:
    context = " ".join(f"The code for BELU is {i}." for i in range(10, 30))
    report = keepset.explain(model, tokenizer, context, QUESTION, "NARO is 4821", effort=effort, max_new_tokens=8)  # type: ignore[call-overload]
    example = text_example(tokenizer, context, QUESTION, "NARO is 4821")
    planned = plan.make_plan(model, example, len(example.answer), effort)  # type: ignore[arg-type]
    most = planned.tokens + planned.more_tokens + planned.steps
    assert 0.4 * most < report.cost.tokens < 1.1 * most


def test_ten_thousand_sentences_are_refused_with_their_cost(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, context = tiny(positions=1_000_000), "The code is 4821. " * 10_000
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


def test_a_model_that_writes_nothing(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "turn_ends", lambda model, tokenizer: frozenset(range(400)))
    with pytest.raises(ValueError, match="answer: expected the model to write one, got nothing before the end"):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION)


def test_the_plan_comes_first_and_the_bar_goes(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    quiet, watched = (Console(force_terminal=terminal, record=True, width=200) for terminal in (False, True))
    for console in (quiet, watched):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=1, console=console)
        assert "5 blocks, " in console.export_text(clear=False)
        assert "where no block is enough alone" in console.export_text(clear=False)
    assert len(quiet.export_text().splitlines()) == 1
    assert not model._forward_hooks


def test_a_file_must_be_text(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(b"\xef\xbb\xbfOne.\r\n")
    assert read_context(path) == "One.\r\n"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"page.txt: expected a text file in UTF-8"):
        read_context(path)
    with pytest.raises(ValueError, match=r"gone.txt: expected a text file, or - for standard input, got: No such file"):
        read_context(tmp_path / "gone.txt")


@pytest.fixture(scope="module")
def folder(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("explain") / "tiny"
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_the_command_shows_and_writes_the_same_report(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # folders are made inside the working folder alone
    page, html, data = tmp_path / "page.txt", tmp_path / "out" / "page.html", tmp_path / "page.json"
    page.write_text(CONTEXT, encoding="utf-8")
    arguments = ["--model", str(folder), "--question", QUESTION, "--answer", "4821"]
    run(monkeypatch, *arguments, "--context", str(page), "--html", str(html), "--json", str(data))
    printed = capsys.readouterr()
    assert "5 blocks" in printed.err
    assert "What the model writes" in printed.out
    report = Report.model_validate_json(data.read_text(encoding="utf-8"))
    assert html.read_text(encoding="utf-8") == report.to_html()
    assert {path.name for path in tmp_path.iterdir()} == {"page.txt", "page.json", "out"}, "no temporary file stays"

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTEXT.encode())))
    run(monkeypatch, *arguments, "--context", "-", "--json", str(data))
    again = Report.model_validate_json(data.read_text(encoding="utf-8"))
    assert again.blocks == report.blocks


def test_the_command_writes_json_alone_to_standard_output(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, html = tmp_path / "page.txt", tmp_path / "page.html"
    page.write_text(CONTEXT, encoding="utf-8")
    questions = ["--question", QUESTION, "--question", "What is the code for BELU?"]
    arguments = ["--model", str(folder), "--context", str(page), *questions]
    run(monkeypatch, *arguments, "--json", "-", "--html", str(html), "--device", "cpu")
    reports = [Report.model_validate(each) for each in json.loads(capsys.readouterr().out)]
    assert [report.question for report in reports] == [QUESTION, "What is the code for BELU?"]
    assert html.read_text(encoding="utf-8").count("<section>") == 2
    run(monkeypatch, *arguments, "--answer", "4821", fails=True)
    assert "answer: expected none with several questions" in capsys.readouterr().err


def test_the_command_goes_on_when_told_to(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.txt"
    page.write_text(CONTEXT, encoding="utf-8")
    monkeypatch.setattr(plan, "timings", lambda model, tokens: (10.0, 10.0))
    arguments = ["--model", str(folder), "--question", QUESTION, "--answer", "4821", "--context", str(page)]
    run(monkeypatch, *arguments, fails=True)
    printed = capsys.readouterr()
    assert "error: cost: expected at most 10 minutes, got an estimate of" in printed.err
    assert not printed.out
    run(monkeypatch, *arguments, "--yes")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, fails: bool = False) -> None:
    monkeypatch.setattr(sys, "argv", ["keepset", "explain", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert bool(exit_info.value.code) == fails


def test_the_function_stays_where_it_is_looked_up() -> None:
    """The package has the function's name, and calling it is calling the function."""
    assert keepset.explain.explain is explanation.explain  # type: ignore[attr-defined]
    assert keepset.explain.explain_file is explanation.explain_file  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        keepset.explain.explian  # type: ignore[attr-defined]  # noqa: B018


def shown(report: Report, width: int = 200) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    report.show(console)
    return console.export_text()

"""``keepset.explain`` on tiny real models: against effects computed directly, and every odd document."""

import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.blocks import Example, KeepSet
from keepset.cli import main
from keepset.explain import answer as answers
from keepset.explain import explanation, plan
from keepset.explain.answer import Writer, find_answer
from keepset.explain.report import Report
from keepset.interventions import Ask, Effects, Executor, Fast, Reference, Score, TeacherForced
from keepset.text.example import text_example
from keepset.text.reading import read_context
from tests.tokenizers import byte_tokenizer

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
    """Decides by the keep set alone whether the answer is given."""

    def use(rule: Rule) -> None:
        class Ruled(TeacherForced):
            def score(self, executor: Executor, pairs: list[tuple[Example, KeepSet]]) -> list[Score]:  # type: ignore[override]
                executor.read([Ask(example, keep, (example.answer,)) for example, keep in pairs])
                return [Score(-0.5 if rule(keep) else -3.0, rule(keep)) for _, keep in pairs]

        monkeypatch.setattr(explanation, "TeacherForced", Ruled)

    return use


def test_the_numbers_are_those_of_the_reference(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, max_new_tokens=4)
    executor = Reference(model)
    writer = Writer(executor, tokenizer, 4, text_example(tokenizer, CONTEXT, QUESTION, [0]))
    opening, example = find_answer(writer.prompt, writer, None)
    effects = Effects([example], executor, TeacherForced())
    assert report.generated
    assert report.gives_answer
    assert (report.opening, report.answer) == (opening, writer.decode(example.answer))
    assert [block.drop for block in report.blocks] == pytest.approx(effects.drop[0].tolist(), abs=1e-4)
    assert [block.flip for block in report.blocks] == effects.flip[0].tolist()
    assert [block.sufficient for block in report.blocks] == effects.sufficient[0].tolist()
    kept = frozenset(report.evidence)
    assert report.answers.clean == writer.text(writer.everything)
    assert report.answers.only_evidence == writer.text(kept)
    assert report.answers.without_evidence == writer.text(writer.everything - kept)
    assert report.answers.no_context == writer.text(frozenset())
    with torch.no_grad():
        tokens = torch.cat([example.tokens, torch.tensor(example.answer[:-1], dtype=torch.long)])
        model.set_attn_implementation("eager")
        layers = model(tokens[None], output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
    rows = torch.stack(layers).mean((0, 1, 2))[len(example.tokens) - 1 :].mean(0)
    expected = [float(rows[span.start : span.stop].sum()) for span in example.blocks]
    assert [block.attention for block in report.blocks] == pytest.approx(expected, abs=1e-5)


def test_the_cost_is_what_was_run(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821")
    example = text_example(tokenizer, CONTEXT, QUESTION, "4821")
    executor = Fast(model)
    effects = Effects([example], executor, TeacherForced())
    assert effects.drop.shape == effects.sufficient.shape
    assert report.cost.effect_tokens == executor.cost.tokens
    assert report.cost.plain_tokens == 11 * (len(example.tokens) + len(example.answer) - 1)
    assert report.cost.multiple > 1
    assert report.cost.tokens > report.cost.effect_tokens
    assert report.cost.keep_sets >= 11
    planned = plan.make_plan(model, example, len(example.answer))
    assert planned.keep_sets == 11
    assert report.cost.effect_tokens == pytest.approx(planned.tokens, rel=0.5)


def test_an_answer_the_model_does_not_give(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, " 4821 ", max_new_tokens=2)
    assert report.answer == "4821"
    assert not report.generated
    assert not report.gives_answer
    assert not any(block.flip for block in report.blocks)
    assert any(abs(block.drop) > 1e-3 for block in report.blocks), "support is still measured"
    assert "does not give this answer" in shown(report)


def test_two_copies_are_alternatives(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: bool(keep & {1, 3}))
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.case, report.evidence) == ("alternatives", (1, 3))
    assert report.family == ((1,), (3,))
    assert report.complete
    assert "Each of the blocks 1 and 3 is enough alone; no single block is necessary." in shown(report)


def test_all_blocks_needed(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: len(keep) == 5)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.case, report.evidence) == ("necessary", (0, 1, 2, 3, 4))
    assert report.family == ((0, 1, 2, 3, 4),)
    assert report.answers.only_evidence == report.answers.clean
    assert report.answers.without_evidence == report.answers.no_context


def test_empty_evidence_names_the_sets_that_stand_in_for_one_another(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: keep >= {0, 1} or keep >= {2, 4})
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.case, report.evidence) == ("empty", ())
    assert report.family == ((0, 1), (2, 4))
    text = shown(report)
    assert "no block is enough alone, and no single block is necessary" in text
    assert "{0, 1} or {2, 4} (no others, if hiding more never repairs the answer)" in text


def test_a_set_that_holds_a_smaller_one_is_not_minimal(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    """Hiding more repairs: 0 is enough alone and among all, but not beside 1 only; and 2 to 4 stand in for it."""
    answer_when(lambda keep: keep in ({0}, {0, 1, 2, 3, 4}) or keep >= {2, 3, 4})
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert report.family == ((0,), (2, 3, 4))
    assert not report.complete


def test_an_answer_that_needs_no_context(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: True)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert report.knows_answer
    assert report.family == ((),)
    assert "with every block hidden" in shown(report)


def test_nothing_gives_the_answer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None]
) -> None:
    answer_when(lambda keep: False)
    report = keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=2)
    assert (report.case, report.family) == ("empty", ())
    assert [block.drop for block in report.blocks] == [0.0] * 5, "ties"
    assert "none found" in shown(report)


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
def test_odd_documents(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, context: str, blocks: str, n: int | None
) -> None:
    report = keepset.explain(model, tokenizer, context, QUESTION, "4821", blocks, max_new_tokens=2)
    assert n is None or len(report.blocks) == n
    again = Report.model_validate(json.loads(json.dumps(report.to_dict(), allow_nan=False)))
    assert again == report
    assert shown(again, width=40)
    assert again.to_html() == report.to_html()


@pytest.mark.parametrize("effort", ["grouped", "certified"])
def test_a_cheaper_mode_says_what_it_did_not_measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, answer_when: Callable[[Rule], None], effort: str
) -> None:
    answer_when(lambda keep: 7 in keep)
    context = " ".join(f"The code is {1000 + i}." for i in range(16))
    report = keepset.explain(model, tokenizer, context, QUESTION, "4821", effort=effort, max_new_tokens=2)  # type: ignore[arg-type]
    assert report.evidence == (7,)
    assert report.blocks[7].flip
    assert "were not hidden one by one" in shown(report)


def test_ten_thousand_sentences_are_refused_with_their_cost(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, context = tiny(positions=1_000_000), "The code is 4821. " * 10_000
    monkeypatch.setattr(plan, "seconds_per_token", lambda model, tokens: 1e-4)
    with pytest.raises(
        ValueError, match=r"cost: expected at most 10 minutes, got an estimate of 8 hours for 20,001 keep sets"
    ):
        keepset.explain(model, tokenizer, context, QUESTION)


def test_no_limit_goes_on(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "seconds_per_token", lambda model, tokens: 10.0)
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
        ({"effort": "fast"}, "effort: expected one of exact, certified, grouped, got 'fast'"),
        ({"blocks": "word"}, "blocks: expected 'sentence'"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected at least 1, got 0"),
    ],
)
def test_bad_input(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, arguments: dict[str, object], message: str
) -> None:
    good: dict[str, object] = {"context": CONTEXT, "question": QUESTION}
    with pytest.raises(ValueError, match=message):
        keepset.explain(model, tokenizer, **(good | arguments))  # type: ignore[arg-type]


def test_a_model_that_writes_nothing(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "turn_ends", lambda model, tokenizer: frozenset(range(400)))
    with pytest.raises(ValueError, match="answer: expected the model to write one, got nothing before the end"):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION)


@pytest.mark.parametrize(
    ("reply", "without", "answer", "opening", "explained"),
    [
        ("The code for NARO is 4821, a code.", "The code for NARO is now 12.", None, "The code for NARO is", "4821"),
        ("The code is NARO. The code", "The code is NAnow", None, "The code is", "NARO"),
        ("The code is 4.5 now! What", "No", None, "", "The code is 4.5 now"),
        ("Dr. NARO is 48", "The code", None, "", "Dr. NARO is 48"),
        ("NARO", "NARO", None, "", "NARO"),
        ("NARO is", "NARO", None, "NARO", "is"),
        ("The code for NARO is 4821.", "No", " 4821 ", "The code for NARO is", "4821"),
        ("4821 and 4821", "No", "4821", "", "4821"),
        ("The code for NARO is 4821.", "No", "7154", "", "7154"),
        ("", "No", "7154", "", "7154"),
        ("...", "No", None, "", "..."),
    ],
)
def test_what_of_a_reply_is_the_answer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    reply: str,
    without: str,
    answer: str | None,
    opening: str,
    explained: str,
) -> None:
    prompt = text_example(tokenizer, CONTEXT, QUESTION, answer or [0])
    writer = Writer(Fast(model), tokenizer, 32, prompt)
    for keep, text in ((writer.everything, reply), (frozenset[int](), without)):
        writer.known[keep] = tuple(tokenizer(text)["input_ids"])
    found, example = find_answer(prompt, writer, answer)
    assert (found, writer.decode(example.answer)) == (opening, explained)
    assert example.blocks == prompt.blocks
    assert writer.decode(example.tokens[len(prompt.tokens) :].tolist()) == opening


def test_the_plan_comes_first_and_the_bar_goes(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    quiet, watched = (Console(force_terminal=terminal, record=True, width=200) for terminal in (False, True))
    for console in (quiet, watched):
        keepset.explain(model, tokenizer, CONTEXT, QUESTION, "4821", max_new_tokens=1, console=console)
        assert "5 blocks, " in console.export_text(clear=False)
        assert "11 keep sets, as much as" in console.export_text(clear=False)
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
    page, html, data = tmp_path / "page.txt", tmp_path / "out" / "page.html", tmp_path / "page.json"
    page.write_text(CONTEXT, encoding="utf-8")
    arguments = ["--model", str(folder), "--question", QUESTION, "--answer", "4821"]
    run(monkeypatch, *arguments, "--context", str(page), "--html", str(html), "--json", str(data))
    printed = capsys.readouterr()
    assert "5 blocks" in printed.err
    assert "if hidden" in printed.out
    report = Report.model_validate_json(data.read_text(encoding="utf-8"))
    assert html.read_text(encoding="utf-8") == report.to_html()
    assert {path.name for path in tmp_path.iterdir()} == {"page.txt", "page.json", "out"}, "no temporary file stays"

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTEXT.encode())))
    run(monkeypatch, *arguments, "--context", "-", "--json", str(data))
    again = Report.model_validate_json(data.read_text(encoding="utf-8"))
    assert again.blocks == report.blocks


def test_the_command_goes_on_when_told_to(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.txt"
    page.write_text(CONTEXT, encoding="utf-8")
    monkeypatch.setattr(plan, "seconds_per_token", lambda model, tokens: 10.0)
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

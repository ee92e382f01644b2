"""``keepset explain``: the same report on the terminal, as JSON and as a page."""

import io
import json
import sys
from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.cli import main
from keepset.explain import plan
from keepset.explain.report import Report
from tests.explain.subject import CONTEXT, QUESTION


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

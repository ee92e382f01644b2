"""``keepset compress``: what is kept on standard output and nothing else there; errors are one line."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from keepset.cli import main
from keepset.compression import commands
from keepset.jobs import compressing
from tests.tiny_compressor import TEXT, tiny_compressor


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "Compressor", lambda device: tiny_compressor())
    monkeypatch.setattr(compressing, "Compressor", lambda *_: tiny_compressor())


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["keepset", "compress", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.fixture
def report(tmp_path: Path) -> str:
    path = tmp_path / "report.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def test_the_short_text_is_all_there_is_on_standard_output(
    report: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, report, "--budget", "0.4") == 0
    printed = capsys.readouterr()
    expected = tiny_compressor().compress(TEXT, 0.4)
    assert printed.out == expected.text + "\n"
    assert f"{expected.tokens_after} of {expected.tokens_before} tokens kept" in printed.err


def test_a_question_and_a_number_of_tokens(
    report: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, report, "--budget", "60", "--question", "Who ran the pier?") == 0
    assert capsys.readouterr().out == tiny_compressor().compress(TEXT, 60, "Who ran the pier?").text + "\n"


def test_a_folder_becomes_a_folder(
    report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    Path(report).rename(tmp_path / "reports" / "report.txt")
    (tmp_path / "reports" / "\x1b[2J").write_bytes(b"\xff")
    for done_before in ("0", "2"):
        assert run(monkeypatch, "reports", "--out", "short", "--budget", "0.4") == 0
        printed = capsys.readouterr()
        assert printed.out.startswith("1 texts compressed in short; 1 rejected, see short/.keepset/rejects.jsonl (")
        assert f"reports: rows 2, shards 1, done before {done_before}" in printed.err
    assert (tmp_path / "short" / "report.txt").read_text() == tiny_compressor().compress(TEXT, 0.4).text + "\n"
    assert run(monkeypatch, "reports", "--out", "short", "--budget", "0.5") == 1
    assert "budget was '0.4 share of tokens', is '0.5 share of tokens'" in capsys.readouterr().err


class Piped:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_gives_what_a_file_gives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(TEXT.encode()))
    assert run(monkeypatch, "-", "--budget", "0.4") == 0
    assert capsys.readouterr().out == tiny_compressor().compress(TEXT, 0.4).text + "\n"


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_file_gets_the_text_as_it_is_and_a_terminal_is_not_steered(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coloured = "The \x1b[31mpier\x1b[0m was rebuilt in 1931.\r\nIt burned down."
    (tmp_path / "coloured.txt").write_bytes(coloured.encode())
    given = "-" if source == "-" else str(tmp_path / "coloured.txt")
    printed = []
    for terminal in (False, True):
        monkeypatch.setattr("keepset.cli.shared.out_console", Console(force_terminal=terminal))
        monkeypatch.setattr(sys, "stdin", Piped(coloured.encode()))
        assert run(monkeypatch, given, "--budget", "1.0") == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == coloured + "\n"
    assert printed[1] == "The \\x1b[31mpier\\x1b[0m was rebuilt in 1931.\nIt burned down.\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"", "standard input: expected some text to compress, got none"), (b"\xff\xfe\x00", "expected text in UTF-8")],
)
def test_standard_input_without_text_is_one_clear_line(
    content: bytes, error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(content))
    assert run(monkeypatch, "-") == 1
    printed = capsys.readouterr()
    assert error in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("report.txt", "--budget", "a lot"), "budget: expected a share of the tokens (0.25)"),
        (("report.txt", "--budget", "1.5"), "budget: expected a share in (0, 1]"),
        (("nowhere.txt",), "nowhere.txt: expected a text file"),
        (("empty.txt",), "empty.txt: expected some text, got only white space"),
        (("report.txt", "--question", " "), "question: expected some text"),
        (("folder",), "out: expected a folder for what is kept of many texts, got none; give one with --out"),
        (("report.txt", "--workers", "2"), "out: expected a folder for what is kept of many texts"),
        (("report.txt", "--out", "short"), "a single text goes to standard output: keepset compress report.txt >"),
        (("folder", "--out", "report.txt"), "report.txt: expected a new folder, got a file"),
        (("folder", "--out", "short", "--budget", "a lot"), "budget: expected a share of the tokens (0.25)"),
    ],
)
def test_mistakes_are_one_clear_line(
    arguments: tuple[str, ...],
    error: str,
    report: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "folder").mkdir()
    assert run(monkeypatch, *arguments) == 1
    printed = capsys.readouterr()
    assert error in printed.err
    assert printed.out == ""

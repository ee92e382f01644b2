"""What a user gets wrong is one clear line on every command, and what is cheap to check is said before torch loads."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepset.cli import main

pytestmark = pytest.mark.long

MODEL = ("--model", "smollm2-135m-instruct")
NO_FILE = "nowhere.txt: expected a text file, or - for standard input, got: No such file or directory"
NOT_TEXT = "binary.txt: expected a text file in UTF-8, got something else"
NOTHING = "empty.txt: expected some text, got nothing"
A_FOLDER = "folder: expected a text file, or - for standard input, got: Is a directory"
SLIP = "did you mean smollm2-135m-instruct?"


def explained(context: str = "text.txt", question: str = "Who?") -> tuple[str, ...]:
    return ("explain", "--context", context, "--question", question)


def pruned(document: str = "text.txt", model: tuple[str, ...] = MODEL) -> tuple[str, ...]:
    return ("prune", document, *model, "--out", "out")


AT_ONCE = {
    explained("nowhere.txt"): NO_FILE,
    explained("binary.txt"): NOT_TEXT,
    explained("empty.txt"): NOTHING,
    explained("folder"): A_FOLDER,
    explained(question=" "): "question: expected some text, got ' '",
    (*explained(), "--model", "smollm2-135m"): SLIP,
    (*explained(), "--model", "./nowhere"): "./nowhere: no such file or folder. Bundled models: smollm2",
    (*explained(), "--model", "folder"): "folder: expected a model folder with a config.json, found none",
    (*explained(), "--model", "text.txt"): "text.txt: expected a folder, a .gguf file, a hub id or a bundled name",
    (*explained(), "--html", "text.txt/page.html"): "to be a folder, got something else; choose another place",
    (*explained(), "--json", "/nowhere/a.json"): "expected the folder /nowhere to exist",
    pruned("nowhere.txt"): NO_FILE,
    pruned("binary.txt"): NOT_TEXT,
    pruned("empty.txt"): NOTHING,
    pruned("folder"): A_FOLDER,
    pruned(model=("--model", "smollm2-135m")): SLIP,
    (*pruned(), "--question", ""): "question: expected some text, got ''",
    (*pruned(), "--text", "/nowhere/kept.txt"): "expected the folder /nowhere to exist",
    ("ask", "nowhere", "Who?"): "nowhere: expected a folder written by 'keepset prune', got none",
    ("ask", "text.txt", "Who?"): "text.txt: expected a folder written by 'keepset prune', got a file",
    ("ask", "folder", " "): "question: expected some text, got ' '",
    ("compress", "text.txt", "--shard-rows", "9"): "out: expected a folder for what is kept of many texts, got none",
    ("label", "rows.jsonl", *MODEL, "--estimate", "--engine", "ray"): "estimate: expected none of --engine, --address",
    ("label", "rows.jsonl", *MODEL, "--estimate", "--shard-rows", "9"): "estimate: expected none of --engine",
    ("compress", "nowhere.txt"): NO_FILE,
    ("compress", "binary.txt"): NOT_TEXT,
    ("compress", "empty.txt"): NOTHING,
    ("compress", "folder"): "out: expected a folder for what is kept of many texts, got none; give one with --out",
    ("label", "rows.jsonl", *MODEL): "out: expected a folder for the labels, got none; give one with --out",
    ("label", "rows.jsonl", "--model", "smollm2-135m", "--out", "out"): SLIP,
    ("label", "rows.jsonl", *MODEL, "--out", "text.txt"): "text.txt: expected a new folder, got a file",
    ("label", "rows.jsonl", *MODEL, "--out", "out", "--column", "x"): "column: expected a field and the column's name",
    ("train", "folder", "--out", "text.txt"): "text.txt: expected a new folder, got a file",
    ("explore", "--model", "smollm2-135m"): SLIP,
    ("models", "fetch", "smollm2-135m"): SLIP,
    ("quickstart", "--out", "text.txt"): "text.txt: expected a new folder, got a file",
    ("report", "--out", "text.txt"): "text.txt: expected a new folder, got a file",
}
"""What is typed -> what is said, before torch is imported."""

LATER = {
    (*explained(), "--blocks", "chapter"): "blocks: expected 'sentence', 'paragraph', 'line', a number of tokens",
    (*explained(), "--effort", "all"): "effort: expected one of evidence, exact, grouped, certified, got 'all'",
    (*explained(), "--quantize", "int3"): "quantize: expected int8 or none, got 'int3'",
    (*explained(), "--device", "toaster"): "device: expected cpu, cuda, cuda:1 or mps, got 'toaster'",
    (*explained(), "--question", "And?", "--answer", "x"): "answer: expected none with several questions, got 'x'",
    (*pruned(), "--policy", "h2o", "--budget", "0"): "budget: expected at least 1 block, got 0",
    (*pruned(), "--policy", "h2o", "--budget", "abc"): "budget: expected 0.1, 12, '0.25 tokens' or '500 tokens'",
    (*pruned(), "--policy", "best"): "policy: expected one of h2o, snapkv",
    pruned(): "policy: expected either --router or --policy, got neither",
    ("ask", "folder", "Who?"): "folder: expected a pruned document",
    ("compress", "text.txt", "--budget", "0"): "budget: expected at least 1 token, got 0",
    ("compress", "text.txt", "--budget", "abc"): "budget: expected a share of the tokens (0.25)",
    ("compress", "text.txt", "--question", ""): "question: expected some text, got ''",
    ("label", "nowhere.jsonl", *MODEL, "--out", "out"): "nowhere.jsonl",
    ("label", "empty.txt", *MODEL, "--out", "out"): "empty.txt",
    ("labels", "show", "nowhere"): "nowhere",
    ("labels", "stats", "folder"): "folder",
    ("labels", "verify", "text.txt"): "text.txt",
    ("train", "nowhere", "--out", "out"): "nowhere",
    ("train", "folder", "--out", "out"): "folder",
    ("bench", "speed"): "speed",
    ("reproduce", "tab:nothing"): "unknown experiment 'tab:nothing'; expected one of",
    ("report", "--results", "nowhere"): "expected nowhere/small to exist",
}
USAGE = {
    ("explain", "--question", "Who?"): "Missing option '--context'",
    ("explain", "--context", "text.txt"): "Missing option '--question'",
    ("compress",): "Missing argument 'document'",
    ("ask", "folder"): "Missing argument 'question'",
    ("explain", "--colour"): "No such option",
    ("explore", "--port", "99999"): "Invalid value for '--port'",
    ("explian",): "No such command 'explian'",
}
"""What typer says, with how the command is used and exit code 2."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands are typed."""
    (tmp_path / "text.txt").write_text("The ferry leaves at noon. Dogs travel free.\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x01" * 20)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(("arguments", "said"), [*AT_ONCE.items(), *LATER.items()], ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_clear_line(
    arguments: tuple[str, ...],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["keepset", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    *_, error = printed.err.splitlines()
    assert stopped.value.code == 1
    assert said in error
    assert error.startswith("error: ")
    assert "Traceback" not in printed.err
    assert sorted(folder.rglob("*")) == before, "nothing is written"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError(), "(Python has no more)"),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: 9 GB\nat"),
            "(DefaultCPUAllocator: not enough memory: 9 GB)",
        ),
    ],
)
def test_too_little_memory_is_one_clear_line(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("keepset.cli.app", fail)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    said = f"error: memory: expected enough for the model and the text, got too little {why}; take a smaller model"
    assert capsys.readouterr().err.startswith(said)


def test_a_fault_of_the_program_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("keepset.cli.app", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main()


@pytest.mark.parametrize(("arguments", "said"), USAGE.items(), ids=lambda value: str(value)[:60])
def test_a_wrong_command_shows_its_usage(
    arguments: tuple[str, ...],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["keepset", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_what_costs_nothing_to_check_is_said_before_torch_is_imported(folder: Path) -> None:
    code = """
import json, sys
from keepset.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["keepset", *arguments]
    try:
        main()
    except SystemExit as stopped:
        assert stopped.code, arguments
    if "torch" in sys.modules:
        sys.exit(f"torch is loaded by: {arguments}")
"""
    every = json.dumps([*AT_ONCE, *USAGE])
    done = subprocess.run([sys.executable, "-c", code, every], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_control_c_ends_it_without_a_traceback(folder: Path) -> None:
    command = [sys.executable, "-m", "keepset", "explain", "--context", "-", "--question", "Who?"]
    running = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(5)  # it waits for standard input, or still imports what it needs
    running.send_signal(signal.SIGINT)
    _, printed = running.communicate(timeout=300)
    assert running.returncode in (130, -signal.SIGINT), "a shell says 130 of both"
    assert len(printed.splitlines()) <= 1, "the shell shows ^C"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here, to write to a disk without room")
def test_a_full_disk_is_one_line(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "keepset", "models", "list"]
        done = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr

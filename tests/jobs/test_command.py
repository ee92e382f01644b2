"""``keepset label`` as a user types it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from keepset.cli import main
from keepset.jobs.journal import Journal
from keepset.jobs.labelling import Loaded
from tests.jobs.conftest import Write, row


@pytest.fixture(scope="module")
def folder(tiny: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    for part in tiny:
        part.save_pretrained(path)
    return path


def run(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["keepset", "label", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


def test_the_command_says_what_it_did(
    folder: Path, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write(*(row(i) for i in range(9)), b"{"), tmp_path / "[labels]"
    arguments = (data, "--model", folder, "--out", out, "--blocks", "sentence", "--shard-rows", 4)
    assert run(*arguments) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"9 rows labelled in {out}; 1 rejected, see {out / 'rejects.jsonl'}")
    assert printed.out.count("\n") == 1
    assert f"{data}: rows 10, shards 3, done before 0" in printed.err
    assert "keep sets" in printed.err
    assert run(*arguments) == 0
    assert "done before 10" in capsys.readouterr().err
    assert run(*arguments[:-1], 5) == 1
    assert "shard_rows was 4, is 5" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it_and_it_says_how_to_go_on(
    folder: Path,
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    monkeypatch.setattr(Journal, "append", lambda *_: os.kill(os.getpid(), number))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        assert run(write(row(1)), "--model", folder, "--out", tmp_path / "out") == code
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capsys.readouterr()
    assert "stopped; what was finished stays: run the same command again to go on" in printed.err
    assert "Traceback" not in printed.err


def labels(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["keepset", "labels", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


def test_labels_are_shown_counted_and_verified(
    folder: Path, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(*(row(i, candidates=["42", "\x1b[31mred"]) for i in range(3)), b"{", row(5, question="Who\x1b[2J?"))
    out = tmp_path / "out"
    assert run(data, "--model", folder, "--out", out) == 0
    capsys.readouterr()
    assert labels("show", out) == 0
    shown = capsys.readouterr().out
    assert "What is the code for BELU? → 42" in shown
    assert "\x1b" not in shown
    assert r"Who\x1b[2J?" in shown
    assert labels("show", out, "--line", 5) == 0
    assert capsys.readouterr().out.startswith("5 5: Who")
    assert labels("show", out, "--line", 4) == 1
    assert "expected one with labels" in capsys.readouterr().err
    assert labels("verify", out) == 0
    assert "1 shards are as they were written, 4 rows labelled, 1 rejects, each once" in capsys.readouterr().out
    assert labels("stats", out) == 0
    counted = " ".join(capsys.readouterr().out.split())
    assert "rows with labels 4 of 5 rejects 1: row 1 rules paper 3, worth 1" in counted
    table = out / "data" / "shard-00000.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"X")
    for command in ("show", "stats", "verify"):
        assert labels(command, out) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "shard-00000.parquet: expected the bytes that were written" in error
    assert labels("verify", tmp_path) == 1


def test_an_estimate_writes_nothing(
    folder: Path, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(*(row(i) for i in range(100)))
    before = set(tmp_path.iterdir())
    assert run(data, "--model", folder, "--estimate", "--workers", 2) == 0
    said = capsys.readouterr().out
    assert "8 rows took" in said
    assert "minutes with 2 workers for 100 rows" in said
    assert set(tmp_path.iterdir()) == before
    assert run(data, "--model", folder) == 1
    assert "out: expected a folder for the labels, got none; give one with --out" in capsys.readouterr().err
    assert run(write(b"{", b"["), "--model", folder, "--estimate") == 1
    assert "got rejects for all of 2 spread over it; the first one, line 1" in capsys.readouterr().err


def test_columns_and_nothing_to_label(
    folder: Path, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(*({"text": "One.\n\nTwo.", "question": "Which?", "answer": "One"} for _ in range(3)))
    assert run(data, "--model", folder, "--out", tmp_path / "out", "--column", "context=text") == 0
    assert run(data, "--model", folder, "--out", tmp_path / "out") == 1
    assert "columns was {'context': 'text'}, is {}" in capsys.readouterr().err
    assert run(data, "--model", folder, "--out", tmp_path / "other") == 1
    assert "got 3 rejects, see" in capsys.readouterr().err
    assert run(data, "--model", folder, "--out", tmp_path / "other", "--column", "context") == 1
    assert (
        "column: expected a field and the column's name, like question=query, got 'context'" in capsys.readouterr().err
    )

"""``keepset label`` as a user types it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from keepset.cli import main
from keepset.jobs.journal import Journal
from keepset.jobs.runner import Loaded
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

"""Writing is all or nothing: what fails midway leaves the old content and no litter."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic import BaseModel
from safetensors import SafetensorError

import keepset.files
from keepset.files import (
    alone_in,
    check_output,
    open_appending,
    read_record,
    replacing_folder,
    write_json,
    write_text,
    writing_tensors,
)

LONG = "ü" * 120
"""Of 240 bytes: a file may have such a name, and nothing much longer."""
KILLED = """
import os, signal, sys
from pathlib import Path
import keepset.files
from keepset.files import replacing_folder, write_text
path = Path(sys.argv[2])
if sys.argv[1] == "file":
    keepset.files._flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    write_text(path, "new")
replace = os.replace
def stop(source, target):
    if Path(target) == path:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
if sys.argv[1] == "gap":
    os.replace = stop
    keepset.files.exchange = lambda *_: False
with replacing_folder(path) as temporary:
    (temporary / "a.txt").write_text("new")
    if sys.argv[1] == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Makes call number ``call`` (from 1) of ``os.<name>`` fail as on a full disk."""
    real = getattr(os, name)
    calls = 0

    def limited(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(os, name, limited)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(target: Path, text: str) -> None:
    with replacing_folder(target) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "a.txt").write_text(text, encoding="utf-8")


def test_text_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    for text in ("first, longer\n", "zweite·\n"):
        write_text(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("existing", [True, False])
def test_failed_text_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, existing: bool
) -> None:
    path = tmp_path / "a.txt"
    if existing:
        write_text(path, "old")
    fail_at(monkeypatch, failing, call=1)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert names(tmp_path) == (["a.txt"] if existing else [])
    assert not existing or path.read_text(encoding="utf-8") == "old"


def test_data_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": object()})
    assert path.read_text(encoding="utf-8") == '{\n  "a": 1\n}\n'
    assert names(tmp_path) == ["a.json"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    fill(target, "old")
    (target / "extra.txt").touch()
    fill(target, "new")
    assert names(target) == ["inner"]
    assert (target / "inner" / "a.txt").read_text(encoding="utf-8") == "new"
    assert names(target.parent) == ["folder"]


@pytest.mark.parametrize(("failing", "call"), [("fsync", 1), ("replace", 1), ("replace", 2)])
def test_a_failed_folder_leaves_the_old_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, call: int
) -> None:
    target = tmp_path / "folder"
    fill(target, "old")
    monkeypatch.setattr(keepset.files, "exchange", lambda *_: False)
    fail_at(monkeypatch, failing, call)
    with pytest.raises(OSError, match="No space left"):
        fill(target, "new")
    assert names(tmp_path) == ["folder"]
    assert (target / "inner" / "a.txt").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_new_folder_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    fail_at(monkeypatch, failing, call=1)
    with pytest.raises(OSError, match="No space left"):
        fill(tmp_path / "folder", "new")
    assert names(tmp_path) == []


def test_an_interrupt_while_writing_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    fill(target, "old")

    def interrupted() -> None:
        with replacing_folder(target) as temporary:
            (temporary / "half.txt").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["folder"]
    assert names(target) == ["inner"]


@pytest.mark.parametrize(
    ("said", "number"),
    [("I/O error: No space left on device (os error 28)", errno.ENOSPC), ("I/O error: File too large", errno.EIO)],
)
def test_what_safetensors_says_of_a_full_disk_is_an_error_of_the_system(tmp_path: Path, said: str, number: int) -> None:
    with (
        pytest.raises(OSError, match="new cannot be written, and nothing was kept") as caught,
        writing_tensors(tmp_path / "new"),
    ):
        raise SafetensorError(said)
    assert caught.value.errno == number


class Note(BaseModel):
    number: int


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"[" * 100_000, "got JSON nested too deeply"),
        (b'{"number": "abc"}', "number: Input should be a valid integer"),
        (b"\xff", "got something else: 'utf-8' codec can't decode"),
        (b'{"number": ' + b"1" * 10_000 + b"}", "got something else"),
        (b"[]", "the whole: Input should be a valid dictionary"),
    ],
)
def test_a_broken_record_is_one_line_that_says_what_is_wrong(tmp_path: Path, written: bytes, said: str) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(written)
    with pytest.raises(ValueError, match=r"note\.json: expected a note, ") as caught:
        read_record(path, Note, "a note")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_output_goes_where_it_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    (work / "note.txt").touch()
    (work / "gone").symlink_to(tmp_path / "nowhere")
    (work / "out").symlink_to(elsewhere)
    monkeypatch.chdir(work)
    for path in ("new/deep/a.html", "a.html", "note.txt", str(elsewhere / "a.html"), "out/a.html"):
        check_output(Path(path))
    check_output(Path("new/deep"), folder=True)
    check_output(Path("new"), folder=True)
    for path, folder, said in (
        ("../elsewhere", False, "expected a file to write, got a folder"),
        ("note.txt", True, "expected a new folder, got a file"),
        (os.devnull, False, "expected a new file, got a device"),
        ("note.txt/a.html", False, r"note\.txt to be a folder, got something else"),
        ("gone/a.html", False, "gone to be a folder, got something else"),
        ("../elsewhere/new/a.html", False, "elsewhere/new to exist .*: mkdir -p .*elsewhere/new"),
        ("out/new/a.html", False, "out/new to exist"),
    ):
        with pytest.raises(ValueError, match=said):
            check_output(Path(path), folder)
    assert names(work) == ["gone", "note.txt", "out"]
    assert names(elsewhere) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(ValueError, match="expected a folder that can be written to"):
        check_output(tmp_path / "a.html")


def killed(what: str, path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, what, str(path)], check=False).returncode == -9


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_being_replaced_is_never_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    """Where the system can exchange two names; elsewhere there is a gap, which the next test is about."""
    target = tmp_path / "folder"
    fill(target, "0")
    if can_exchange and not keepset.files.exchange(target, target):
        pytest.skip("this file system cannot exchange two names")
    if not can_exchange:
        monkeypatch.setattr(keepset.files, "exchange", lambda *_: False)
    missing, stop = [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            missing.append(not os.path.lexists(target))

    looking = threading.Thread(target=look)
    looking.start()
    for i in range(100):
        fill(target, str(i))
    stop.set()
    looking.join()
    assert (target / "inner" / "a.txt").read_text() == "99"
    assert names(tmp_path) == ["folder"]
    assert len(missing) > 100
    assert not can_exchange or not any(missing)


@pytest.mark.parametrize("name", ["folder", LONG])
def test_killed_between_two_renames_the_old_folder_comes_back(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    fill(target, "old")
    killed("gap", target)
    assert not target.exists(), "else nothing was tested"
    with replacing_folder(target):
        assert names(target) == ["inner"]
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("what", ["writing", "file"])
def test_what_a_kill_leaves_of_a_long_name_is_cleared_and_that_of_its_like_is_not(tmp_path: Path, what: str) -> None:
    alike = f"{LONG[:-1]}x"
    for name in (LONG, alike):
        killed(what, tmp_path / name)
    assert len(names(tmp_path)) == 2
    if what == "file":
        write_text(tmp_path / LONG, "new")
    else:
        fill(tmp_path / LONG, "new")
    left, written = names(tmp_path)
    assert written == LONG
    assert left.startswith(f".{LONG[:100]}-")


@pytest.mark.parametrize(("what", "name"), [("writing", "folder"), ("file", "a.txt")])
def test_what_a_kill_leaves_behind_is_cleared_by_the_next_write(tmp_path: Path, what: str, name: str) -> None:
    killed(what, tmp_path / name)
    assert [left.startswith(f".{name}.") for left in names(tmp_path)] == [True]
    others = tmp_path / f".{name}.notes", tmp_path / f".other-{name}.0-1-2.tmp"
    for other in others:
        other.touch()
    if what == "file":
        write_text(tmp_path / name, "new")
    else:
        fill(tmp_path / name, "new")
    assert names(tmp_path) == sorted([name, *(other.name for other in others)])


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with keepset.files.replacing_file(tmp_path / "a.txt") as first:
        first.write_text("first")
        write_text(tmp_path / "a.txt", "second")
        assert first.exists()
    assert (tmp_path / "a.txt").read_text() == "first"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("years of work")
    for name in ("a.txt", ".a.txt.tmp", "b.txt", ".lock"):
        (tmp_path / name).symlink_to(elsewhere)
    write_text(tmp_path / "a.txt", "new")
    assert not (tmp_path / "a.txt").is_symlink()
    with pytest.raises(ValueError, match=r"b.txt: expected a file or folder of its own, got a symbolic link to"):
        open_appending(tmp_path / "b.txt")
    with pytest.raises(ValueError, match=r".lock: expected a file .* remove the link"), alone_in(tmp_path, "writing"):
        pass
    assert elsewhere.read_text() == "years of work"


def test_new_files_may_be_read_by_whom_the_mask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640

"""Writing is all or nothing: what fails midway leaves the old content and no litter."""

import errno
import os
from pathlib import Path

import pytest

from keepset.files import replacing_folder, write_json, write_text


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

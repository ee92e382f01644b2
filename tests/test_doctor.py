"""The doctor: says what is there and what is missing, notices damage, and names the command for it."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from keepset import doctor
from keepset.cli import main
from keepset.doctor import Finding, bundled_model, examine, extras, product_seconds, show
from keepset.files import write_json
from keepset.models.bundled import BUNDLED, CONVERSION

NAME = "smollm2-135m-instruct"
FETCH = f"keepset models fetch {NAME}"


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without float16 takes seconds for large ones."""
    monkeypatch.setattr(doctor, "ROWS", 16)
    monkeypatch.setattr(doctor, "WIDTH", 64)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; where the model would be in it."""
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models" / NAME


def put(folder: Path) -> None:
    """A model as an older keepset left it: no hashes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    write_json(folder / "keepset.json", {"name": NAME, "sha256": BUNDLED[NAME].sha256, "conversion": CONVERSION})


def test_a_model_is_missing_then_hashed_then_right_then_damaged(cache: Path) -> None:
    found = bundled_model(BUNDLED[NAME])
    assert (found.command, found.wrong) == (FETCH, False)
    assert "not here (98 MB to download)" in found.said
    put(cache)
    assert "noted down as it is now" in bundled_model(BUNDLED[NAME]).said
    assert bundled_model(BUNDLED[NAME]) == Finding("model", f"{NAME}: here, all hashes right")
    (cache / "config.json").write_text("[]")
    found = bundled_model(BUNDLED[NAME])
    assert (found.command, found.wrong) == (FETCH, True)
    assert "damaged: expected config.json with sha256" in found.said


def test_a_start_that_compiles_everything_anew_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (found,) = doctor.compiled()
    assert found.command == "unset PYTHONDONTWRITEBYTECODE"
    kept = Path(importlib.util.cache_from_source(torch.__file__))
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert not list(doctor.compiled())
    kept.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert not list(doctor.compiled())


def test_extras_that_are_missing_come_with_their_command() -> None:
    ours = ['none; extra == "dev"', 'nor-this; extra == "test"', 'none-either; extra == "docs"']
    requirements = ["torch>=2", 'pytest; extra == "all"', 'nothing-like-it==1; extra == "all"', *ours]
    assert list(extras(requirements)) == [
        Finding("extra all", "not here: nothing-like-it", "pip install 'keepset[all]'")
    ]


def test_without_pip_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = [finding for finding in doctor.software() if finding.what == "pip"]
    assert [finding.wrong for finding in found] == [True]
    assert str(found[0].command).endswith("-m ensurepip")


def test_every_number_type_is_measured_and_threads_are_put_back() -> None:
    threads = torch.get_num_threads()
    assert all(product_seconds(dtype) > 0 for dtype in doctor.MEASURED)
    torch.set_num_threads(2)
    try:
        said = {finding.what: finding.said for finding in doctor.speed()}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert all(str(dtype).removeprefix("torch.") in said["faster here"] for dtype in doctor.MEASURED)
    assert "times as fast as one" in said["threads"]
    assert "times as fast as float32" in said["int8"]


@pytest.mark.usefixtures("cache")
def test_the_whole_report_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, width=80, file=open("/dev/null", "w"))  # noqa: SIM115
    assert show(examine(), console)
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    for what in ("Python", "torch", "instructions", "faster here", "memory", "disk", *BUNDLED):
        assert what in shown
    assert "…" not in shown


def test_the_command_fails_when_something_is_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = []
    for step in (
        lambda: put(cache),
        lambda: None,
        lambda: (cache / "config.json").write_text("[]"),
        lambda: shutil.rmtree(cache),
    ):
        step()
        monkeypatch.setattr(sys, "argv", ["keepset", "doctor"])
        with pytest.raises(SystemExit) as caught:
            main()
        codes.append(int(caught.value.code or 0))
    assert codes == [0, 0, 1, 0]
    assert FETCH in " ".join(capsys.readouterr().out.split())

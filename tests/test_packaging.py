"""What an installed package needs is in it: a wheel is built, unpacked beside nothing else, and its command started."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.background import run_with, said_by_fork

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "keepset"
NOT_SOURCES = ("__pycache__", "*.egg-info")
BACKEND = "setuptools"
"""What pyproject.toml builds with; torch brings it along."""


def test_every_data_file_is_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = {
        path
        for package, patterns in settings["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / "src" / package.replace(".", "/")).glob(pattern)
    }
    there = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert there
    assert sorted(str(path.relative_to(PACKAGE)) for path in there - named) == []


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what a wheel brings and nothing else; built from a copy, because building leaves files."""
    if find_spec(BACKEND) is None:
        pytest.skip(f"no {BACKEND} here to build a wheel with")
    work = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, work)
    shutil.copytree(ROOT / "src", work / "src", ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(work / "dist"), str(work))
    (wheel,) = (work / "dist").glob("keepset-*.whl")
    pip("install", "--target", str(work / "site"), str(wheel))
    return work / "site"


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_wheel_holds_every_file(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        return {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    assert files(installed / "keepset") == files(PACKAGE)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["bin/keepset", "--version"], "keepset "),
        (["bin/keepset", "--help"], "quickstart"),
        (["bin/keepset", "models", "list"], "smollm2-135m-instruct"),
    ],
    ids=["version", "help", "models"],
)
def test_it_runs_from_an_empty_folder(installed: Path, command: list[str], printed: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}  # before whatever else is installed
    done = subprocess.run(
        [sys.executable, str(installed / command[0]), *command[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert not list(tmp_path.iterdir())


def test_it_reads_its_data_from_an_empty_folder(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import keepset, keepset.compression.compressor as c, keepset.explore.samples as s\n"
        "assert c.Compressor().router and all(sample.text for sample in s.SAMPLES)\nprint(keepset.__file__)"
    )
    monkeypatch.chdir(tmp_path)
    assert said_by_fork(run_with, installed, code).endswith("site/keepset/__init__.py\n")
    assert not list(tmp_path.iterdir())

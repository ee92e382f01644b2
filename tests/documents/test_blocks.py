"""The commands and the Python of the README, the Python of the page on the paper and the notebook run as they stand."""

import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from keepset.cli import app
from keepset.models import loading
from keepset.models.bundled import fetched
from tests.background import said_by_fork

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MODEL = "smollm2-135m-instruct"
needs_model = pytest.mark.skipif(
    fetched(MODEL) is None, reason=f"{MODEL} is not on this machine: keepset models fetch {MODEL}"
)


@pytest.fixture(autouse=True, scope="module")
def loaded_once() -> Iterator[None]:
    """Every block loads the same model, and none changes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_load_folder", cache(loading._load_folder))
        yield


def python_blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@needs_model
def test_the_readmes_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = python_blocks("README.md")
    exec(block, {})
    *cited, short = capsys.readouterr().out.strip().split("\n")
    assert re.search(r"35 minutes.* \[1\]", " ".join(cited)), "the reply, with the sentence that says it"
    assert short == "The crossing takes 35 minutes."


@needs_model
def test_the_readmes_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```\nkeepset (.+)\n```$", readme, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["explain", "compress"]
    for command in commands:
        words, _, target = command.partition(" > ")
        app(shlex.split(words), standalone_mode=False)
        printed = capsys.readouterr().out
        if target:
            Path(target).write_text(printed, encoding="utf-8")
    assert "3 October 1891" in Path("lit.html").read_text(encoding="utf-8")
    whole = Path("docs/examples/harbour.txt").read_text(encoding="utf-8")
    assert 0 < len(Path("short.txt").read_text(encoding="utf-8")) < len(whole) / 2


def test_the_papers_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = python_blocks("docs/reproduce.md")
    names: dict[str, object] = {}
    exec(block, names)
    effects = names["effects"]
    assert effects.drop.shape == effects.sufficient.shape == (8, 16)  # type: ignore[attr-defined]


@needs_model
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    shown = json.loads(said_by_fork(show_notebook, tmp_path))
    cited = [text for text in shown if "[1]" in text and "35 minutes" in text]
    assert cited, "the reply, with the sentence that says it"
    assert any(re.fullmatch(r"Out\[\d+\]: False", text.strip()) for text in shown), "the mayor is not in the text"


def show_notebook(folder: Path) -> None:
    """Runs the cells as a kernel does, and prints what each shows; in a fork, because it takes the place of the main
    module, and because a kernel of its own would first import torch and load the model."""
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(folder)
    shell = InteractiveShell(ipython_dir=str(folder))
    shown = []
    for cell in json.loads((ROOT / "docs" / "notebooks" / "first-steps.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            with redirect_stdout(io.StringIO()) as said:
                shell.run_cell("".join(cell["source"]), store_history=True).raise_error()
            shown.append(said.getvalue())
    print(json.dumps(shown))

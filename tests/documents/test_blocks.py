"""The commands and the Python of the README, the Python of the page on the paper and the notebook run as they stand."""

import re
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from keepset.cli import app
from keepset.models.bundled import fetched

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MODEL = "smollm2-135m-instruct"
needs_model = pytest.mark.skipif(
    fetched(MODEL) is None, reason=f"{MODEL} is not on this machine: keepset models fetch {MODEL}"
)


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
    notebook = read_notebook()
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [printed(cell) for cell in notebook.cells]
    cited = [text for text in shown if "[1]" in text and "35 minutes" in text]
    assert cited, "the reply, with the sentence that says it"
    assert any(text.strip() == "False" for text in shown), "the mayor of Paris is not in the text"


def read_notebook() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "docs" / "notebooks" / "first-steps.ipynb", as_version=4)


def printed(cell: nbformat.NotebookNode) -> str:
    """What a cell prints, and its value as text."""
    parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return "".join(parts)

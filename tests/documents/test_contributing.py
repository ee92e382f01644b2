"""docs/contributing.md, followed to the letter in a copy of the package."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.background import run_with, said_by_fork

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
NEW_FILES = re.findall(r"^`(src/[\w/]+\.py)`\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^`(src/[\w/]+\.py)`, in `(\w+)`[^\n]*\n```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the page's files and lines in it, in a folder of its own."""
    copy = tmp_path_factory.mktemp("copy")
    # With what Python has compiled, which is as old as the copies; what another worker is compiling is left out.
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.pyc.*"))
    for name, text in NEW_FILES:
        assert not (copy / name).exists()
        (copy / name).write_text(text, encoding="utf-8")
    for name, inside, line in LINES:
        path = copy / name
        (home, used) = next(
            (new, re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)[0])
            for new, text in NEW_FILES
            if Path(new).parent == path.parent.relative_to(copy)
        )
        text = path.read_text(encoding="utf-8")
        opening = re.search(rf"^{inside}\b.*= \{{\n", text, re.MULTILINE)
        assert opening
        module = home.removeprefix("src/").removesuffix(".py").replace("/", ".")
        first = text.index("\nfrom ")
        text = text[: opening.end()] + line + text[opening.end() :]
        path.write_text(f"{text[:first]}\nfrom {module} import {used}{text[first:]}", encoding="utf-8")
    return copy


FOLLOWED = """
import keepset
print(keepset.__file__)
from keepset.cli import app
from keepset.paper.catalogue import experiments
for name in ("eviction", "memory"):
    print(name, [job for job in experiments()[name].jobs("small") if "longest" in job])
print(keepset.READOUTS["last_layer"].__name__)
for words in (["reproduce", "first_block", "--scale", "smoke"], ["report", "first-block", "--scale", "smoke"]):
    app(words, standalone_mode=False)
"""


@pytest.fixture(scope="module")
def followed(copied: Path, untrained_teachers: Path) -> str:
    """What a process says that has the new files; it runs in the copy's folder, beside untrained teachers."""
    shutil.copytree(untrained_teachers, copied, dirs_exist_ok=True)
    said = said_by_fork(follow, copied)
    assert said.startswith(f"{copied / 'src' / 'keepset'}")
    return said


def follow(copied: Path) -> None:
    os.chdir(copied)
    run_with(copied / "src", FOLLOWED)


def test_the_page_has_a_policy_a_readout_and_a_table() -> None:
    assert [Path(name).parent.name for name, _ in NEW_FILES] == ["policies", "readouts", "paper"]
    assert [inside for _, inside, _ in LINES] == ["POLICIES", "READOUTS"]


def test_the_policy_is_in_every_comparison_and_the_readout_is_there(followed: str) -> None:
    for name in ("eviction", "memory"):
        assert re.search(rf"^{name} \['.*longest", followed, re.MULTILINE), name
    assert "\nlast_layer_attention\n" in followed


def test_the_table_runs_and_renders(copied: Path, followed: str) -> None:
    assert "| Teacher | Share |" in followed
    assert (copied / "results" / "smoke" / "first_block" / "five-task-0.json").exists()


def test_three_lines_make_a_table_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    block = re.findall(r"## Your own table.*?```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(block, names)
    assert {"causal", "attention"} <= set(names["routed"].arm)  # type: ignore[attr-defined]

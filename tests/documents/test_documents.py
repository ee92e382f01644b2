"""The README and the docs name only what exists."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from click.testing import Result
from typer.main import get_command
from typer.testing import CliRunner

from keepset.cli import COMMANDS, app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(text: str) -> list[list[str]]:
    """Every keepset command on a line of its own in a code block, or between backticks."""
    fenced = "\n".join(re.findall(r"^```[a-z]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    found = re.findall(r"^keepset ([a-z][^#\n]*)", fenced, flags=re.MULTILINE)
    found += re.findall(r"`keepset ([a-z][^`\n]*)`", text)
    return [line.split() for line in found]


@cache
def help_of(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--help"])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_in_the_documents_exists(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        help_words = [words[0]]
        group = getattr(get_command(app), "commands", {}).get(words[0])
        if len(words) > 1 and hasattr(group, "commands"):
            help_words.append(words[1])
        result = help_of(*help_words)
        assert result.exit_code == 0, f"{page.name}: keepset {' '.join(words)}"
        for option in (word for word in words if word.startswith("--")):
            assert option in re.sub(r"\x1b\[[0-9;]*m", "", result.output), f"{page.name}: {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_file_a_document_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
def test_make_lets_python_keep_what_it_compiled() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "-f", "Makefile", "-f", "-", "shown"],
        input="shown: ; @echo kept$${PYTHONDONTWRITEBYTECODE}",
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "not"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "kept\n"


def test_help_lists_every_command_and_the_testbed_last() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    places = [output.index(f"│ {name} ") for name in COMMANDS]
    assert places[-5] < output.index("The paper and its testbed") < places[-4]
    assert places == sorted(places)
    assert set(COMMANDS) == set(getattr(get_command(app), "commands", {}))


def test_the_tests_that_a_page_names_are_there() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"`(tests/[\w/]+\.py::\w+)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    for name in named:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), name

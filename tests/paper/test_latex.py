"""The LaTeX of every tracked table: well-formed by itself, and compiled where there is a compiler."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keepset.paper.table import latex_text

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "tex"
DOCUMENT = RESULTS / "tables.tex"
TABLES = sorted(set(RESULTS.glob("*.tex")) - {DOCUMENT})


@pytest.mark.parametrize("path", [*TABLES, DOCUMENT], ids=lambda path: path.name)
def test_environments_and_braces_close_and_the_text_is_ascii(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.isascii()
    open_environments: list[str] = []
    for command, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if command == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert not open_environments
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")


def test_the_document_has_every_table() -> None:
    inputs = re.findall(r"\\input\{(.+)\}", DOCUMENT.read_text(encoding="utf-8"))
    assert sorted(inputs) == [path.name for path in TABLES]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_document_compiles_and_every_table_fits_on_a_page(tmp_path: Path) -> None:
    for path in [*TABLES, DOCUMENT]:
        shutil.copy(path, tmp_path)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", DOCUMENT.name]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace")
    assert run.returncode == 0, run.stdout[-2000:]
    assert (tmp_path / "tables.pdf").stat().st_size > 0
    assert not re.findall(r"Overfull \\hbox.*|Float too large.*", run.stdout)


def test_characters_that_pdflatex_does_not_know_are_refused() -> None:
    assert latex_text("1.5 µs → ≤ 3 × −2 | a < b…") == (r"1.5 $\mu$s $\to$ $\leq$ 3 $\times$ $-$2 $|$ a $<$ b\ldots{}")
    with pytest.raises(ValueError, match="got é in 'café'"):
        latex_text("café")

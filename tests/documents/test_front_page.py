"""The README's lines on the paper are those of the results; the site builds, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from keepset.paper.catalogue import claims
from keepset.paper.claim import FAILS
from keepset.paper.front_page import BEGIN, BEYOND, END, LINES, find, front_lines, with_front_lines
from keepset.paper.results import Results

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_what_the_results_give(tracked: Results) -> None:
    assert BEGIN in README
    assert END in README
    assert with_front_lines(README, tracked) == README, "README.md is not what 'keepset report' writes"


def test_every_line_has_its_claim_and_failures_are_among_them(tracked: Results) -> None:
    judged = [claim for _, claim in claims(tracked)]
    missing = [begins for begins in (*LINES, BEYOND) if find(judged, begins) is None]
    assert missing == [], "a claim has another name now: say so in keepset.paper.front_page"
    assert front_lines(tracked).count(f"**{FAILS}**") >= min(3, sum(claim.verdict == FAILS for claim in judged))


def test_a_page_without_marks_stays_as_it_is(tracked: Results) -> None:
    assert with_front_lines("# Mine\n", tracked) == "# Mine\n"


def test_every_page_is_in_the_sites_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in pages if not re.search(rf"[ /]{re.escape(name)}$", menu, re.MULTILINE)} == set()


def test_the_site_builds_without_a_warning_and_loads_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="the site needs keepset[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="?https?://[^">]+', text), page.name

"""``keepset report --out``: every result on a page, every link leads somewhere, nothing is loaded."""

import re
from html import escape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.catalogue import claims, experiments
from keepset.paper.pages import MARKS, render_pages
from keepset.paper.report import made
from keepset.paper.results import Results, read_results

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results() -> Results:
    return read_results(ROOT / "results", "small")


@pytest.fixture(scope="module")
def pages(results: Results) -> dict[str, str]:
    return render_pages(results)


def test_every_claim_has_its_verdict_number_and_command_on_its_page(results: Results, pages: dict[str, str]) -> None:
    judged = list(claims(results))
    assert judged
    for experiment, claim in judged:
        page = pages[f"{experiment.name}.html"]
        assert escape(experiment.command) in page
        for said in (claim.claim, claim.here, f"{MARKS[claim.verdict]} {claim.verdict}"):
            assert escape(said) in page.replace("<code>", "`").replace("</code>", "`")
    assert f"{len(judged)} claims" in pages["index.html"]


def test_what_fails_stands_first(pages: dict[str, str]) -> None:
    index = pages["index.html"]
    table = index[index.index("<table>") :]
    found = re.findall(r'verdict-cell">\S ([^<]+)<', table[: table.index("</table>")])
    assert set(found) == set(MARKS)
    assert found == sorted(found, key=list(MARKS).index)


def test_every_table_and_figure_is_on_a_page(results: Results, pages: dict[str, str]) -> None:
    for experiment in experiments().values():
        for report in experiment.reports:
            for item in made(report, experiment, results):
                assert f"<h2>{item.name}</h2>" in pages[f"{experiment.name}.html"]


def test_links_lead_somewhere_and_nothing_is_loaded(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert set(re.findall(r'<a href="([^"]+)"', page)) <= set(pages)
        assert "<script" not in page
        assert not re.search(r'(src|href)="https?:', page)


def test_the_command_writes_them_and_wants_no_name(results: Results, tmp_path: Path, pages: dict[str, str]) -> None:
    words = ["report", "--results", str(ROOT / "results"), "--out", str(tmp_path / "site")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").iterdir()} == pages
    refused = CliRunner().invoke(app, [*words, "tab:chain"])
    assert isinstance(refused.exception, ValueError)
    assert "expected no name" in str(refused.exception)

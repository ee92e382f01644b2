"""``keepset report --out``: every result on a page, every link leads somewhere, nothing is loaded."""

import re
import shutil
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.catalogue import claims, experiments
from keepset.paper.experiment import Experiment, Report
from keepset.paper.pages import MARKS, render_pages
from keepset.paper.report import made
from keepset.paper.results import Results, read_results
from keepset.paper.table import Figure, Table

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Rendered:
    """Every page, made once, and what it was made of."""

    pages: dict[str, str]
    items: list[tuple[Report, Experiment, list[Table | Figure]]]


@pytest.fixture(scope="module")
def rendered(tracked: Results) -> Rendered:
    items = []

    def noted(report: Report, experiment: Experiment, results: Results) -> list[Table | Figure]:
        items.append((report, experiment, made(report, experiment, results)))
        return items[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keepset.paper.pages.made", noted)
        return Rendered(render_pages(tracked), items)


@pytest.fixture(scope="module")
def pages(rendered: Rendered) -> dict[str, str]:
    return rendered.pages


def test_every_claim_has_its_verdict_number_and_command_on_its_page(tracked: Results, pages: dict[str, str]) -> None:
    judged = list(claims(tracked))
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


def test_every_table_and_figure_is_on_a_page(rendered: Rendered) -> None:
    every = [report for experiment in experiments().values() for report in experiment.reports]
    assert [report for report, _, _ in rendered.items] == every
    assert any(items for _, _, items in rendered.items)
    for _, experiment, items in rendered.items:
        for item in items:
            assert f"<h2>{item.name}</h2>" in rendered.pages[f"{experiment.name}.html"]


def test_links_lead_somewhere_and_nothing_is_loaded(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert set(re.findall(r'<a href="([^"]+)"', page)) <= set(pages)
        assert "<script" not in page
        assert not re.search(r'(src|href)="https?:', page)


def test_the_command_writes_them_and_wants_no_name(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results" / "small" / "ablation", tmp_path / "results" / "small" / "ablation")
    words = ["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "site")]
    assert CliRunner().invoke(app, words).exit_code == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").iterdir()}
    assert written == render_pages(read_results(tmp_path / "results", "small"))
    assert {"index.html", "ablation.html"} <= set(written)
    refused = CliRunner().invoke(app, [*words, "tab:chain"])
    assert isinstance(refused.exception, ValueError)
    assert "expected no name" in str(refused.exception)

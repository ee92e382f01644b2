"""``keepset report --out site/``: the results as HTML pages, one per experiment: question, verdicts, tables, figures.

Each page says what was asked, what the paper claims and what came out, how it was measured (the captions and notes of
its tables), and the command. No scripts, nothing loaded from elsewhere.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from keepset.explain.page import document
from keepset.files import write_text
from keepset.paper.catalogue import claims, experiments, headline
from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim
from keepset.paper.experiment import Experiment
from keepset.paper.report import differences, made
from keepset.paper.results import Results, read_results
from keepset.paper.table import Figure, Table

MARKS = {FAILS: "✘", OPEN: "?", HOLDS: "✔"}
"""Verdict -> sign, so that it does not rest on a colour; in the order of the page."""
STYLE = """
td, th { padding-right: 1rem; }
.verdict-cell { white-space: nowrap; font-weight: 600; }
h2 { margin-top: 2.75rem; }
svg { max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; }
nav { margin: 0 0 1.5rem; }
"""


def render_pages(results: Results) -> dict[str, str]:
    """File name -> HTML, for every experiment with results, and ``index.html``."""
    found: dict[str, list[Claim]] = {}
    for experiment, claim in claims(results):
        found.setdefault(experiment.name, []).append(claim)
    pages = {}
    for experiment in experiments().values():
        items = [item for report in experiment.reports for item in made(report, experiment, results)]
        if items or experiment.name in found:
            pages[experiment.name] = _experiment_page(experiment, found.get(experiment.name, []), items, results)
    named = {f"{name}.html": text for name, text in pages.items()}
    return {"index.html": _index(found, list(pages)), **named}


def write_pages(results: Path, out: Path, scale: str) -> list[Path]:
    """Writes every page and returns the paths."""
    written = []
    for name, text in render_pages(read_results(results, scale)).items():
        write_text(out / name, text)
        written.append(out / name)
    return written


def _index(found: dict[str, list[Claim]], pages: Sequence[str]) -> str:
    verdicts = Counter(claim.verdict for of in found.values() for claim in of)
    counted = ", ".join(f"{verdicts[verdict]} {MARKS[verdict]} {verdict}" for verdict in MARKS)
    rows = [
        (f'<a href="{name}.html">{_text(claim.claim)}</a>', _verdict(claim), _text(claim.here), _text(claim.n))
        for verdict in MARKS
        for name, of in found.items()
        for claim in of
        if claim.verdict == verdict
    ]
    others = "".join(f'<li><a href="{name}.html">{escape(name)}</a>: {_text(headline(name))}</li>' for name in pages)
    body = f"""
<h1>What was claimed, and what came out</h1>
<p>{sum(verdicts.values())} claims: {escape(counted)}. What does not hold stands first.</p>
<p class="soft">Brackets are 95 % intervals. A claim holds when its whole interval is on the claim's side, does not hold
when it is on the other, and cannot be told when the interval has both or too few units stand behind it.</p>
<div class="scroll">{_html_table(("claim", "verdict", "here", "n"), rows)}</div>
<h2>Every experiment</h2>
<ul>{others}</ul>
"""
    return document("keepset: results", body, style=STYLE)


def _experiment_page(
    experiment: Experiment, found: Sequence[Claim], items: Sequence[Table | Figure], results: Results
) -> str:
    judged = [
        (_text(claim.claim), _verdict(claim), _text(claim.paper), _text(claim.here), _text(claim.n)) for claim in found
    ]
    differing = [tuple(map(_text, row)) for row in differences(experiment, results)]
    body = f"""
<nav class="soft"><a href="index.html">all results</a></nav>
<h1>{escape(experiment.name)}</h1>
<p>{_text(headline(experiment.name))}</p>
<p>Run it: <code>{escape(experiment.command)}</code></p>
{_part("Claims", ("claim", "verdict", "paper", "here", "n"), judged)}
{"".join(map(_item, items))}
{_part("Where a number differs from the paper", ("result", "paper", "here", "likeliest cause"), differing)}
"""
    return document(f"keepset: {experiment.name}", body, style=STYLE)


def _part(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f'<h2>{title}</h2><div class="scroll">{_html_table(columns, rows)}</div>' if rows else ""


def _item(item: Table | Figure) -> str:
    heading = f"<h2>{escape(item.name)}</h2>"
    if isinstance(item, Figure):
        return heading + item.svg[item.svg.index("<svg") :]  # without the XML declaration
    cells = [tuple(map(_text, row)) for row in item.rows if row]
    notes = "".join(f"<li>{_text(note)}</li>" for note in item.notes)
    return (
        f'{heading}<p>{_text(item.caption)}</p><div class="scroll">{_html_table(item.columns, cells)}</div>'
        f'<ul class="soft">{notes}</ul>'
    )


def _html_table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already; columns are text."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _verdict(claim: Claim) -> str:
    return f'<span class="verdict-cell">{MARKS[claim.verdict]} {escape(claim.verdict)}</span>'


def _text(text: str) -> str:
    """Plain text with `code` in it."""
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text))

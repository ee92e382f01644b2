"""Evidence reports as one HTML page: no scripts, nothing loaded from elsewhere, every user's text escaped."""

from collections.abc import Sequence
from html import escape

from keepset.explain.findings import BlockReport, Findings, PartReport
from keepset.explain.painted import Painted, painted_text
from keepset.explain.words import (
    ANYWAY,
    alone_line,
    cited_pieces,
    cost_line,
    doubt,
    missed,
    missed_line,
    remarks,
    reply_rows,
    source_line,
    verdict,
)

COLOURS = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6b6b70; --line: #d9d9de; --paper: #ffffff; --card: #f6f6f8;
  --cost: 214, 69, 40; --mark: #15803d; --marked: 21, 128, 61; --bar: #7c9cc4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf0; --soft: #a0a0a8; --line: #3a3a40; --paper: #17171a;
  --card: #212125; --cost: 235, 94, 62; --mark: #4ade80; --marked: 74, 222, 128; --bar: #55749e; } }
"""
STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .25rem; }
h2 { font-size: 1rem; margin: 2.25rem 0 .6rem; }
.answer { font-size: 1.15rem; margin: 0 0 1rem; }
.soft { color: var(--soft); font-size: .875rem; }
.verdict { border-left: 4px solid var(--mark); background: var(--card); padding: .7rem 1rem; margin: 0; }
.note { border-left: 4px solid rgb(var(--cost)); background: var(--card); padding: .5rem 1rem; margin: .5rem 0 0; }
.context { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--card); padding: 1rem 1.25rem;
  border-radius: 8px; line-height: 1.9; }
.block { border-radius: 3px; padding: .12em 0; scroll-margin-top: 2rem; }
.block:hover, .block:target { outline: 2px solid var(--soft); }
.evidence { text-decoration: underline 3px var(--mark); text-underline-offset: .22em; }
sup { font-size: .66em; color: var(--soft); padding: 0 .25em 0 .1em; line-height: 0; user-select: none; }
sup b { color: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th { text-align: left; font-weight: 600; color: var(--soft); white-space: nowrap; }
th, td { padding: .28rem .7rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.role { white-space: nowrap; }
.dot { color: var(--mark); }
.says { min-width: 14rem; overflow-wrap: anywhere; }
.bar { display: inline-block; height: .6em; background: var(--bar); border-radius: 2px; margin-left: .5em; }
.attention { white-space: nowrap; min-width: 9rem; font-variant-numeric: tabular-nums; }
a { color: inherit; }
.part { margin: 1.4rem 0 0; }
.track { display: inline-block; width: 5rem; height: .6em; background: var(--line); border-radius: 2px; }
.track .bar { margin: 0; background: var(--mark); display: block; }
section + section { border-top: 3px double var(--line); margin-top: 3rem; padding-top: 2rem; }
@media (max-width: 36rem) { .says { min-width: 0; } .track { width: 3rem; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(reports: Sequence[Findings]) -> str:
    """The whole file: one report after another."""
    sections = "".join(f"<section>{_section(report, f'r{i}-')}</section>" for i, report in enumerate(reports))
    return document(reports[0].question, sections)


def document(title: str, body: str, style: str = "") -> str:
    """An HTML file in the one style that every page of keepset has; ``body`` is HTML, ``style`` more rules."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{COLOURS}{STYLE}{style}</style>
</head>
<body><main>{body}</main></body>
</html>
"""


def _section(report: Findings, prefix: str) -> str:
    """One report; ``prefix`` keeps its anchors apart from those of the others."""
    said_first = doubt(report)
    note = f'<p class="note">{said_first}</p>' if said_first else ""
    heading = "What it rests on" if report.in_text else "What the reply rests on all the same"
    return f"""
{note}<h1 dir="auto">{escape(report.question)}</h1>
<p class="answer" dir="auto">{cited_reply(report, prefix)} <span class="soft">({escape(source_line(report))})</span></p>
{missed_block(report, prefix)}<h2>{heading}</h2>
{every_part(report, prefix)}
<p class="soft">Bars: how much of what the whole text adds to a sentence the block restores alone. Point at one for its
numbers: a nat is a unit of log-probability, 0.7 nats make a sentence twice as likely, 2.3 nats ten times.</p>
<h2>The context</h2>
<p class="soft">Shaded: what the block alone restores, the stronger the more. Underlined: evidence.</p>
<div class="context" dir="auto">{_running_text(report, prefix)}</div>
<h2>What the model writes</h2>
{written_replies(report)}
<h2>Every block</h2>
<div class="scroll">{_table(report)}</div>
<p class="soft">{escape(cost_line(report))}</p>
"""


def missed_block(report: Findings, prefix: str) -> str:
    """What the question points at, where the reply rests on something else; nothing otherwise."""
    block = missed(report)
    if block is None:
        return ""
    said = f'<a href="#{prefix}{block.number}">{escape(report.text(block))}</a>'
    alone = alone_line(report)
    more = f"<br>{escape(alone)}" if alone else ""
    return f'<p class="note" dir="auto">{missed_line(block)} {said}{more}</p>\n'


def cited_reply(report: Findings, prefix: str) -> str:
    """The reply with links to its sources."""
    cited = iter(part for part in report.parts if part.evidence)
    return "".join(
        escape(text) + (f" [{_links(next(cited), prefix)}]" if mark else "") for text, mark in cited_pieces(report)
    )


def _links(part: PartReport, prefix: str) -> str:
    def link(number: int) -> str:
        return f'<a href="#{prefix}{number}">{number}</a>'

    return " or ".join([", ".join(map(link, part.evidence)), *map(link, part.others)])


def every_part(report: Findings, prefix: str) -> str:
    """What each part rests on; those the model would write without the text stand together at the end."""
    spoken = "".join(_part(report, part, prefix) for part in report.parts if part.spoken)
    return spoken + _anyway([part for part in report.parts if not part.spoken])


def _anyway(parts: Sequence[PartReport]) -> str:
    """The sentences the model would write without the text, together."""
    if not parts:
        return ""
    said = "".join(f'<li dir="auto">“{escape(part.text)}”</li>' for part in parts)
    return f'<p class="part soft">{ANYWAY if len(parts) > 1 else verdict(parts[0])}</p><ul class="soft">{said}</ul>'


def _part(report: Findings, part: PartReport, prefix: str) -> str:
    rows = "".join(
        f'<tr><td class="role">{part.role(number)}</td><td class="number"><a href="#{prefix}{number}">{number}</a></td>'
        f'<td>{_bar(part.restored[number], part.worth)}</td><td class="says" dir="auto">'
        f"{escape(report.text(report.blocks[number]))}</td></tr>"
        for number in (*part.evidence, *part.others, *part.close)
    )
    return (
        f'<p class="part" dir="auto">“{escape(part.text)}”</p><p class="verdict" '
        f'title="the whole text adds {part.worth:.2f} nats">{escape(verdict(part))}</p><table>{rows}</table>'
    )


def _bar(share: float, worth: float) -> str:
    """Never less than nothing: a block that helps when it is hidden restores nothing, and nothing goes with it."""
    share = max(0.0, share)
    return (
        f'<span class="track" title="{share:.0%}, {share * worth:.2f} nats"><span class="bar" '
        f'style="width: {100 * min(1.0, share):.0f}%"></span></span>'
    )


def _running_text(report: Findings, prefix: str) -> str:
    """The context as it was given, blocks shaded by what they restore alone."""
    return painted_text(report.context, [_paint(report, block, prefix) for block in report.blocks])


def _paint(report: Findings, block: BlockReport, prefix: str) -> Painted:
    role = report.role(block.number)
    return Painted(
        number=block.number,
        start=block.start,
        stop=block.stop,
        strength=report.strength(block.number),
        title=f"block {block.number}: {role}; {report.nats(block.number):.2f} nats alone; {block.tokens} tokens",
        classes="evidence" if role == "evidence" else "",
        anchor=f"{prefix}{block.number}",
    )


def written_replies(report: Findings) -> str:
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td dir="auto">{escape(said) or "(nothing)"}</td></tr>'
        for name, said in reply_rows(report)
    )
    notes = "".join(f'<p class="note">{escape(remark)}</p>' for remark in remarks(report))
    return f"<table>{rows}</table>{notes}"


def _table(report: Findings) -> str:
    """Every block; what hiding it takes and attention only where they were measured."""
    hidden = any(part.carried for part in report.parts)
    attention = any(block.attention is not None for block in report.blocks)
    more = "<th>no longer said without it</th>" * hidden + '<th class="number">attention</th>' * attention
    rows = "".join(_row(report, block, hidden, attention) for block in report.blocks)
    return f'<table><tr><th class="number">block</th><th>text</th><th></th><th>alone</th>{more}</tr>{rows}</table>'


def _row(report: Findings, block: BlockReport, hidden: bool, attention: bool) -> str:
    number = block.number
    worth = max((part.worth for part in report.parts), default=0.0)
    cells = [
        f'<td class="number">{number}</td><td class="says" dir="auto">{escape(report.text(block))}</td>'
        f'<td class="role">{report.role(number)}</td><td>{_bar(report.strength(number), worth)}</td>'
    ]
    if hidden:
        lost = max(((part.carried[number], part.worth) for part in report.parts if part.carried), default=(0.0, 0.0))
        cells.append(f"<td>{_bar(*lost)}</td>")
    if attention:
        cells.append(f'<td class="number">{block.attention or 0.0:.1%}</td>')
    return f"<tr>{''.join(cells)}</tr>"

"""The evidence report as one HTML page: no scripts, nothing loaded from elsewhere, every user's text escaped."""

from html import escape

from keepset.explain.findings import BlockReport, Findings
from keepset.explain.words import FLOOR, answer_rows, change, cost_line, remarks, verdict

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6b6b70; --line: #d9d9de; --paper: #ffffff; --card: #f6f6f8;
  --cost: 214, 69, 40; --help: 40, 110, 214; --mark: #15803d; --bar: #7c9cc4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf0; --soft: #a0a0a8; --line: #3a3a40; --paper: #17171a;
  --card: #212125; --cost: 235, 94, 62; --help: 96, 150, 240; --mark: #4ade80; --bar: #55749e; } }
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
.dot { color: var(--mark); }
.says { min-width: 14rem; overflow-wrap: anywhere; }
.bar { display: inline-block; height: .6em; background: var(--bar); border-radius: 2px; margin-left: .5em; }
.attention { white-space: nowrap; min-width: 9rem; font-variant-numeric: tabular-nums; }
a { color: inherit; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
BAR_REM = 5.0
STRONGEST = 0.6
"""Opacity of the largest effect: the text on it stays readable in light and dark."""


def page(report: Findings) -> str:
    """The whole file."""
    source = f"written by {report.model}" if report.generated else f"given; measured with {report.model}"
    notes = "".join(f'<p class="note">{escape(remark)}</p>' for remark in remarks(report))
    opening = f'<span class="soft">{escape(report.opening)} …</span> ' if report.opening else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(report.question)}</title>
<style>{STYLE}</style>
</head>
<body><main>
<h1 dir="auto">{escape(report.question)}</h1>
<p class="answer" dir="auto">{opening}{escape(report.answer)} <span class="soft">({escape(source)})</span></p>
<p class="verdict">{escape(verdict(report))}</p>
{notes}
<h2>The context</h2>
<p class="soft">Red: hiding the block costs the answer log-probability, the stronger the more. Blue: hiding it helps.
Underlined: the evidence set. Raised: the block's number, and its effect in nats where it is {FLOOR} or more.</p>
<div class="context" dir="auto">{_running_text(report)}</div>
<h2>What the model writes</h2>
{_answers(report)}
<h2>Minimal sufficient sets</h2>
{_family(report)}
<h2>Every block</h2>
<div class="scroll">{_table(report)}</div>
<h2>Cost</h2>
<p class="soft">{escape(cost_line(report))} Effort: {escape(report.effort)}.</p>
</main></body>
</html>
"""


def _running_text(report: Findings) -> str:
    """The context as it was given, blocks shaded; text outside every block stays plain."""
    parts, end = [], 0
    for block in report.blocks:
        parts += [escape(report.context[end : block.start]), _block(report, block)]
        end = block.stop
    return "".join(parts) + escape(report.context[end:])


def _block(report: Findings, block: BlockReport) -> str:
    text = report.context[block.start : block.stop]
    said = text.rstrip()
    shade = report.shade(block)
    colour = "--cost" if shade > 0 else "--help"
    effect = f" <b>{change(block)}</b>" if abs(block.drop) >= FLOOR else ""
    return (
        f'<span id="block-{block.number}" class="block{" evidence" if block.evidence else ""}" '
        f'style="background: rgba(var({colour}), {STRONGEST * abs(shade):.3f})" title="{escape(_title(block))}">'
        f"{escape(said)}</span><sup>{block.number}{effect}</sup>{escape(text[len(said) :])}"
    )


def _title(block: BlockReport) -> str:
    facts = [f"block {block.number}", f"if hidden {change(block)} nats{', answer lost' if block.flip else ''}"]
    if block.sufficient:
        facts.append("enough alone")
    return "; ".join([*facts, f"attention {block.attention:.1%}", f"{block.tokens} tokens"])


def _answers(report: Findings) -> str:
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td dir="auto">{escape(said) or "(nothing)"}</td></tr>'
        for name, said in answer_rows(report)
    )
    return f"<table>{rows}</table>"


def _family(report: Findings) -> str:
    if not report.family:
        return '<p class="soft">None was found.</p>'
    items = "".join(f"<li>{_linked(keep)}</li>" for keep in report.family)
    others = (
        "There are no others, if hiding more never repairs the answer." if report.complete else "There may be others."
    )
    return f'<ul>{items}</ul><p class="soft">Keeping one of them alone keeps the answer. {others}</p>'


def _linked(keep: tuple[int, ...]) -> str:
    if not keep:
        return "nothing: the answer needs no block"
    return " and ".join(f'<a href="#block-{number}">block {number}</a>' for number in keep)


def _table(report: Findings) -> str:
    most = max(block.attention for block in report.blocks)
    return (
        '<table><tr><th></th><th class="number">block</th><th>text</th><th class="number">if hidden</th>'
        f"<th>answer</th><th>alone</th><th>attention</th></tr>{''.join(_row(report, b, most) for b in report.blocks)}"
        "</table>"
    )


def _row(report: Findings, block: BlockReport, most: float) -> str:
    width = BAR_REM * block.attention / most if most else 0.0
    return (
        f'<tr><td class="dot">{"●" if block.evidence else ""}</td><td class="number">{block.number}</td>'
        f'<td class="says" dir="auto">{escape(report.text(block))}</td><td class="number">{change(block)}</td>'
        f"<td>{'lost' if block.flip else ''}</td><td>{'enough' if block.sufficient else ''}</td>"
        f'<td class="attention">{block.attention:.1%}<span class="bar" style="width: {width:.2f}rem"></span></td></tr>'
    )

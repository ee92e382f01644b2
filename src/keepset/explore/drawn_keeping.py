"""The second view as HTML: kept and dropped side by side, three answers below."""

from html import escape

from keepset.explain.report import Report
from keepset.explore.explorer import FromKept, Ranking
from keepset.explore.keeping import Comparison, Cut

ASK_FIRST = "Ask something in the first tab: this one shows what of that document is kept, and what is then answered."


def drawn_cut(report: Report, shown: Cut) -> str:
    """Each sentence on one of the two sides; evidence is named on either."""
    kept = [_sentence(report, number, _why(report, shown, number)) for number in sorted(shown.kept)]
    rest = [block.number for block in report.blocks if block.number not in shown.kept]
    dropped = [_sentence(report, number, _why(report, shown, number)) for number in rest]
    n, tokens = len(report.blocks), sum(shown.ranking.lengths)
    lost = [number for number in rest if number in report.evidence]
    return f"""<p class="{"note" if lost else "verdict"}">{escape(said(shown.ranking))}
{escape(_evidence_said(report, lost))}</p>
<div class="beside">
<div><h2>Kept: {len(kept)} of {n} sentences, {shown.tokens:,} of {tokens:,} tokens</h2>
<div class="context kept">{"".join(kept)}</div></div>
<div><h2>Dropped: {len(dropped)} of {n}</h2>
<div class="context dropped">{"".join(dropped) or '<p class="soft">Nothing.</p>'}</div></div>
</div>"""


def said(ranking: Ranking) -> str:
    """Who ranked, and from what."""
    when = "knowing the question" if ranking.read_question else "before the question is known"
    return f"Ranked by {ranking.title}, {when}."


def _evidence_said(report: Report, lost: list[int]) -> str:
    if not report.evidence:
        return "The reply rests on no sentence in particular."
    if not lost:
        return "All of the evidence is kept."
    if len(lost) == len(report.evidence):
        return "The evidence is dropped: what is kept does not say what the reply rests on."
    return f"{len(lost)} of the {len(report.evidence)} sentences of the evidence are dropped."


def _why(report: Report, shown: Cut, number: int) -> str:
    marks = ["evidence"] * (number in report.evidence) + ["always kept"] * (number in shown.protected)
    return ", ".join(marks)


def _sentence(report: Report, number: int, mark: str) -> str:
    text = escape(report.text(report.blocks[number]))
    css = ' class="evidence"' if number in report.evidence else ""
    named = f' <span class="mark">{escape(mark)}</span>' if mark else ""
    return f'<p data-sentence="{number}" dir="auto"><sup>{number}</sup> <span{css}>{text}</span>{named}</p>'


def drawn_comparison(report: Report, comparison: Comparison) -> str:
    """Tokens and seconds are this machine's and this moment's."""
    none = "The reply rests on no sentence in particular, so there is no evidence to keep."
    rows = [
        _row("the whole document", comparison.dense, comparison.finished),
        _row("what is kept", comparison.pruned, comparison.finished),
        _row("the evidence alone", comparison.evidence, comparison.finished, none if not report.evidence else ""),
    ]
    return f"""<h2>What is answered from it</h2>
<p class="soft">{escape(report.question)}</p>
<table class="readings"><tr><th>read</th><th>answer</th><th class="number">sentences</th><th class="number">tokens</th>
<th class="number">seconds to read</th><th class="number">to write</th></tr>{"".join(rows)}</table>
<p class="soft">Tokens of the document that the model reads; the rest is never read. Seconds to read include the
ranking. They are this machine's, once.</p>"""


def _row(name: str, reading: FromKept | None, finished: bool, none: str = "") -> str:
    if reading is None:
        waiting = none or ("" if finished else "…")
        return f'<tr><th>{name}</th><td colspan="5" class="soft">{escape(waiting)}</td></tr>'
    numbers = (
        ("sentences", f"{reading.sentences:,}"),
        ("tokens", f"{reading.tokens:,}"),
        ("seconds to read", f"{reading.read_seconds:.2f}"),
        ("to write", f"{reading.write_seconds:.2f}"),
    )
    cells = "".join(f'<td class="number" data-label="{label}">{value}</td>' for label, value in numbers)
    return f'<tr><th>{name}</th><td dir="auto">{escape(reading.answer) or "(nothing)"}</td>{cells}</tr>'

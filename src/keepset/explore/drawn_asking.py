"""The first view as HTML: the reply with its sources, and the document painted by effect and by attention."""

from html import escape

from keepset.explain.findings import BlockReport, Findings
from keepset.explain.page import cited_reply, every_part, missed_block, written_replies
from keepset.explain.painted import Painted, painted_text
from keepset.explain.words import doubt, source_line
from keepset.explore.asking import Refusal

ANCHOR = "sentence-"


def drawn_report(report: Findings) -> str:
    """What to say first stands first."""
    first = doubt(report)
    note = f'<p class="note">{escape(first)}</p>' if first else ""
    heading = "What it rests on" if report.in_text else "What the reply rests on all the same"
    return f"""{note}
<h2>Reply</h2>
<p class="answer" dir="auto">{cited_reply(report, ANCHOR)} <span class="soft">({escape(source_line(report))})</span></p>
{missed_block(report, ANCHOR)}<h2>{heading}</h2>
{every_part(report, ANCHOR)}
<p class="soft">A bar: how much of what the whole document adds to this part of the reply the sentence gives alone.</p>
<div class="beside">
<div><h2>By effect</h2>
<p class="soft">Darker: the sentence alone gives more of the reply. Underlined: evidence.</p>
<div class="context by-effect" dir="auto">{painted_text(report.context, _by_effect(report))}</div></div>
<div><h2>By attention</h2>
<p class="soft">Darker: the model looks at it more while it writes. That is not what the reply needs.</p>
<div class="context by-attention" dir="auto">{painted_text(report.context, _by_attention(report))}</div></div>
</div>
<h2>What the model writes</h2>
{written_replies(report)}
<p class="soft">{report.cost.seconds:.0f} seconds; the document was read {report.cost.keep_sets:,} times, each time with
other sentences hidden.</p>"""


def drawn_refusal(refusal: Refusal) -> str:
    return f'<p class="note">{escape(refusal.said)}</p>'


def _by_effect(report: Findings) -> list[Painted]:
    return [
        Painted(
            number=block.number,
            start=block.start,
            stop=block.stop,
            strength=report.strength(block.number),
            title=_effect(report, block),
            classes="evidence" if block.number in report.evidence else "",
            anchor=f"{ANCHOR}{block.number}",
        )
        for block in report.blocks
    ]


def _effect(report: Findings, block: BlockReport) -> str:
    """What the sentence gives alone and, where that was measured, what is no longer said without it."""
    said = f"sentence {block.number}: {report.role(block.number)}; gives {report.strength(block.number):.0%} alone"
    taken = [part.carried[block.number] for part in report.parts if part.carried]
    return f"{said}; without it {max(0.0, *taken):.0%} is no longer said" if taken else said


def _by_attention(report: Findings) -> list[Painted]:
    """The sentence that is looked at most is as dark as one that gives everything."""
    most = max((block.attention or 0.0 for block in report.blocks), default=0.0) or 1.0
    return [
        Painted(
            number=block.number,
            start=block.start,
            stop=block.stop,
            strength=(block.attention or 0.0) / most,
            title=f"sentence {block.number}: {block.attention or 0.0:.1%} of the attention",
            colour="attended",
        )
        for block in report.blocks
    ]

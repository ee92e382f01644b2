"""What the quickstart found, as a picture and a page."""

from dataclasses import dataclass
from html import escape

from keepset.explain.page import POLICY, STYLE
from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.result import Metric

SHOWN_ATTENDED = 3
"""Most attended blocks that are shown beside the evidence."""


@dataclass(frozen=True)
class BlockRow:
    """One block of a labelled document."""

    number: int
    text: str
    attention: float
    """Share of the answer position's."""
    drop: float
    """Nats the answer loses when the block is hidden."""
    evidence: bool
    """Found by hiding."""
    planted: bool
    """Known by construction; never used to find the evidence."""

    def short(self, length: int) -> str:
        line = " ".join(self.text.split())
        return line if len(line) <= length else f"{line[: length - 1]}…"


@dataclass(frozen=True)
class LabelledDocument:
    """A question and every block of its document."""

    question: str
    answer: str
    answered: bool
    blocks: tuple[BlockRow, ...]

    def shown(self) -> list[BlockRow]:
        """The evidence, and what attention would have named."""
        attended = sorted(self.blocks, key=lambda row: -row.attention)[:SHOWN_ATTENDED]
        return [row for row in self.blocks if row.evidence or row in attended]


@dataclass(frozen=True)
class KeptRow:
    """A policy at a budget."""

    policy: str
    budget: float
    preserved: Metric
    evidence_kept: Metric
    ceiling: bool = False
    """No policy: what keeping the planted facts gives."""


@dataclass(frozen=True)
class Quickstart:
    """All of it."""

    model: str
    tokens: int
    """Of a pruned document."""
    labelled: tuple[LabelledDocument, ...]
    kept: tuple[KeptRow, ...]


def quickstart_figure(report: Quickstart) -> str:
    """Share of answers preserved, policy by policy, one mark per budget."""
    figure = new_figure(width=6.0, height=3.4)
    axes = figure.axes[0]
    policies = list(dict.fromkeys(row.policy for row in report.kept))[::-1]
    budgets = sorted({row.budget for row in report.kept})
    for number, budget in enumerate(budgets):
        rows = {row.policy: row.preserved for row in report.kept if row.budget == budget}
        values = [rows[policy].value for policy in policies]
        errors = [
            [value - (rows[policy].low or 0.0) for policy, value in zip(policies, values, strict=True)],
            [(rows[policy].high or 1.0) - value for policy, value in zip(policies, values, strict=True)],
        ]
        places = [place + 0.18 * (number - (len(budgets) - 1) / 2) for place in range(len(policies))]
        colour = COLOURS["causal"] if number else COLOURS["attention"]
        axes.errorbar(values, places, xerr=errors, fmt="o", color=colour, capsize=2, label=f"{budget:.0%} kept")
    axes.set_yticks(range(len(policies)), policies)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("answers preserved, pruned before the question")
    axes.legend(loc="lower right")
    return svg(figure)


def quickstart_page(report: Quickstart) -> str:
    """One HTML file: no scripts, nothing loaded from elsewhere."""
    picture = quickstart_figure(report).split("?>", 1)[-1]  # without the XML declaration
    picture = picture[picture.index("<svg") :]
    labelled = "".join(map(_labelled, report.labelled))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>keepset quickstart</title>
<style>{STYLE} svg {{ max-width: 100%; height: auto; }}</style>
</head>
<body><main>
<h1>What {escape(report.model)} needs to keep</h1>
<p class="verdict">{escape(_verdict(report))}</p>
<h2>Pruned before the question is known</h2>
{picture}
<div class="scroll">{_kept(report)}</div>
<h2>What an answer rests on</h2>
<p class="soft">Each block was hidden and the answer watched. A dot: the evidence set, found that way. The most attended
blocks stand beside it.</p>
{labelled}
</main></body>
</html>
"""


def _verdict(report: Quickstart) -> str:
    widest = max(row.budget for row in report.kept)
    best = {row.policy: row.preserved for row in report.kept if row.budget == widest and not row.ceiling}
    causal = best.pop("causal router")
    other = max(best, key=lambda name: best[name].value)
    return (
        f"With {widest:.0%} of the blocks of {report.tokens:,}-token documents kept, the router trained on evidence "
        f"preserves {causal.value:.2f} of {causal.n} answers; the best other policy, {other}, {best[other].value:.2f}."
    )


def _kept(report: Quickstart) -> str:
    rows = "".join(
        f'<tr><td>{escape(row.policy)}</td><td class="number">{row.budget:.0%}</td>'
        f'<td class="number">{row.preserved.value:.2f} ({row.preserved.low:.2f} to {row.preserved.high:.2f})</td>'
        f'<td class="number">{row.preserved.n}</td><td class="number">{row.evidence_kept.value:.2f}</td></tr>'
        for row in report.kept
    )
    return (
        '<table><tr><th>policy</th><th class="number">budget</th><th class="number">answers preserved</th>'
        f'<th class="number">n</th><th class="number">evidence kept</th></tr>{rows}</table>'
    )


def _labelled(found: LabelledDocument) -> str:
    rows = "".join(
        f'<tr><td class="dot">{"●" if row.evidence else ""}</td><td class="number">{row.number}</td>'
        f'<td class="says">{escape(row.short(160))}</td><td class="number">{row.attention:.1%}</td>'
        f'<td class="number">{-row.drop:+.1f} nats</td></tr>'
        for row in found.shown()
    )
    return (
        f'<p class="answer">{escape(found.question)} <b>{escape(found.answer)}</b></p>'
        '<table><tr><th></th><th class="number">block</th><th>text</th><th class="number">attention</th>'
        f'<th class="number">if hidden</th></tr>{rows}</table>'
    )

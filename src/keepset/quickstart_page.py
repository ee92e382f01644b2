"""What the quickstart found: on the terminal, as a picture and as a page."""

from dataclasses import dataclass
from html import escape

from rich.box import SIMPLE_HEAD
from rich.table import Table

from keepset.explain.page import document
from keepset.figures import COLOURS, new_figure, svg
from keepset.jobs.labelling import LabelRow
from keepset.statistics import clustered_wilson

SHOWN_ATTENDED = 3
"""Most attended lines that are shown beside the evidence."""
SHOWN_CHARACTERS = 160
"""Of a line: what RULER hides stands at its end."""
MARKS = (("o", "attention", "white"), ("s", "causal", None), ("^", "ablation", None))
"""Marker, colour and filling, budget by budget: told apart without colours too."""
STYLE = """
svg { max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; margin: .5rem 0 1.25rem; }
.answer { margin: 1.75rem 0 .5rem; }
h1 { margin-bottom: .9rem; }
h2 { margin-top: 3rem; }
td, th { padding-top: .4rem; padding-bottom: .4rem; }
@media (max-width: 36rem) { .says { min-width: 0; } table { font-size: .8rem; } th { white-space: normal; }
  td, th { padding-right: .45rem; } }
"""


@dataclass(frozen=True)
class PolicyCount:
    """A policy at a budget."""

    policy: str
    """Its title."""
    budget: float
    """Share of a document's lines."""
    preserved_each: tuple[int, ...]
    """Answers that are still given, document by document."""
    facts_kept: int
    """Of the same questions, those whose line was kept."""
    cost: float
    """Seconds to choose lines, over those of reading the document once; the median document's."""
    told: bool
    """No policy: it is told which lines state the facts. Not a ceiling, because what stands around them matters too."""

    @property
    def preserved(self) -> int:
        return sum(self.preserved_each)


@dataclass(frozen=True)
class QuickstartOutcome:
    """All that was counted."""

    model: str
    tokens: int
    """Of a pruned document."""
    training_documents: int
    labelled_questions: int
    answers_each: tuple[int, ...]
    """Questions that the model answers from the whole document, document by document: every share is one of these."""
    counts: tuple[PolicyCount, ...]
    """In the order of the table; every policy at every budget."""

    @property
    def documents(self) -> int:
        """Pruned, none of them labelled."""
        return len(self.answers_each)

    @property
    def answers(self) -> int:
        return sum(self.answers_each)

    @property
    def budgets(self) -> list[float]:
        return sorted({count.budget for count in self.counts})

    def rows(self) -> dict[str, list[PolicyCount]]:
        """Title -> its counts, by budget."""
        titles = dict.fromkeys(count.policy for count in self.counts)
        ordered = sorted(self.counts, key=lambda count: count.budget)
        return {title: [count for count in ordered if count.policy == title] for title in titles}

    def share(self, count: PolicyCount) -> tuple[float, float, float]:
        """Answers preserved, and the ends of the 95 % interval, by document."""
        return count.preserved / self.answers, *clustered_wilson(count.preserved_each, self.answers_each)


def evidence_table(row: LabelRow) -> Table:
    """The lines that matter and the lines that are looked at; the others are left out."""
    table = Table(title=f"{row.question} {row.answer}", title_justify="left")
    for column in ("line", "text", "attention", "alone"):
        table.add_column(column, justify="left" if column == "text" else "right")
    table.add_column("evidence")
    for i in shown_lines(row):
        found = i in row.evidence
        cells = (str(i), _short(row.blocks[i]), f"{row.attention[i]:.1%}", _alone(row, i))
        table.add_row(*cells, "●" if found else "", style="bold green" if found else None)
    return table


def policy_table(outcome: QuickstartOutcome) -> Table:
    """Policies down, budgets across."""
    title = (
        f"answers that survive, of {outcome.answers} in {outcome.documents} documents (95 % interval); facts kept; "
        "cost of choosing, in dense prefills"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))  # fits 80 columns
    table.add_column("policy", no_wrap=True)
    for budget in outcome.budgets:
        table.add_column(f"{budget:.0%} of lines", justify="right", no_wrap=True)
        table.add_column("facts", justify="right", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    for name, counts in outcome.rows().items():
        cells = []
        for count in counts:
            value, low, high = outcome.share(count)
            cells += [f"{value:.2f} ({low:.2f}–{high:.2f})", f"{count.facts_kept / outcome.answers:.2f}"]
        table.add_row(name, *cells, cost(counts))
    return table


def cost(counts: list[PolicyCount]) -> str:
    """Of choosing lines, which is the same at every budget."""
    spent = counts[0].cost
    return "-" if counts[0].told else f"{spent:.2f}" if spent < 10 else f"{spent:.1f}"  # four columns of a terminal


def verdict(outcome: QuickstartOutcome) -> str:
    """The router trained on evidence beside the best other policy, at every budget, and what each costs."""
    found = []
    for budget in outcome.budgets:
        first, *others = (count for count in outcome.counts if count.budget == budget and not count.told)
        best = max(others, key=lambda count: count.preserved)
        found.append(
            f"With {budget:.0%} of the lines kept the {first.policy} preserves {first.preserved} of {outcome.answers} "
            f"answers, the best other policy, {best.policy}, {best.preserved}."
        )
    costs = ", ".join(f"{title} {cost(counts)}" for title, counts in outcome.rows().items() if not counts[0].told)
    return (
        f"{outcome.documents} documents of {outcome.tokens:,} tokens. {' '.join(found)} What choosing took, beside "
        f"reading the document once: {costs}."
    )


def quickstart_figure(outcome: QuickstartOutcome) -> str:
    """Share of answers preserved, policy by policy, one mark per budget; the legend stands above the axes."""
    figure = new_figure(width=6.0, height=4.0)
    axes = figure.axes[0]
    rows = list(outcome.rows().items())[::-1]
    for number, budget in enumerate(outcome.budgets):
        shares = [outcome.share(counts[number]) for _, counts in rows]
        values = [value for value, _, _ in shares]
        errors = [[value - low for value, low, _ in shares], [high - value for value, _, high in shares]]
        places = [place + 0.3 * (number - (len(outcome.budgets) - 1) / 2) for place in range(len(rows))]
        marker, colour, filling = MARKS[number % len(MARKS)]
        axes.errorbar(
            values,
            places,
            xerr=errors,
            fmt=marker,
            color=COLOURS[colour],
            markerfacecolor=filling or COLOURS[colour],
            capsize=2,
            label=f"{budget:.0%} of the lines kept",
        )
    axes.set_yticks(range(len(rows)), [title for title, _ in rows])
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(
        f"answers preserved, pruned before the question\n(of {outcome.answers}, {outcome.documents} documents; 95 %)"
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(outcome.budgets))
    return svg(figure)


def quickstart_page(outcome: QuickstartOutcome, labelled: list[LabelRow]) -> str:
    """One HTML file: no scripts, nothing loaded from elsewhere."""
    picture = quickstart_figure(outcome)
    picture = picture[picture.index("<svg") :]  # without the XML declaration
    body = f"""
<h1>What {escape(outcome.model)} needs to keep</h1>
<p class="verdict">{escape(verdict(outcome))}</p>
<h2>Pruned before the question is known</h2>
{picture}
<div class="scroll">{_counts(outcome)}</div>
<p class="soft">Each share is of the {outcome.answers} answers that the model gives from the whole of
{outcome.documents} documents; in brackets its 95 % interval, in which the answers about a document stand or fall
together. Policies whose intervals overlap widely cannot be told apart by so few. Facts: the share of them whose line
was kept. Cost: seconds to choose lines, over those of reading the document once, of the median document.</p>
<p class="soft">The routers learned from {outcome.labelled_questions} questions about {outcome.training_documents} other
documents, whose evidence was found by hiding lines.</p>
<h2>What an answer rests on</h2>
<p class="soft">Lines were hidden and the answer watched: every line was left alone, and where none was enough, with
others. A dot: evidence, found that way. The most attended lines stand beside it.</p>
{"".join(map(_labelled, labelled))}
"""
    return document("keepset quickstart", body, style=STYLE)


def shown_lines(row: LabelRow) -> list[int]:
    """The evidence, and what attention would have named."""
    attended = sorted(range(row.n_blocks), key=lambda i: -row.attention[i])[:SHOWN_ATTENDED]
    return sorted({*row.evidence, *attended})


def _counts(outcome: QuickstartOutcome) -> str:
    """Policies down, budgets across: four columns, which fit a narrow window."""
    rows = []
    for title, counts in outcome.rows().items():
        cells = ""
        for count in counts:
            value, low, high = outcome.share(count)
            cells += (
                f'<td>{value:.2f} <span class="soft">({low:.2f} to {high:.2f}); '
                f"facts {count.facts_kept / outcome.answers:.2f}</span></td>"
            )
        rows.append(f"<tr><td>{escape(title)}</td>{cells}<td>{cost(counts)}</td></tr>")
    heads = "".join(f"<th>answers preserved, {b:.0%} of lines</th>" for b in outcome.budgets)
    heads += "<th>cost, dense prefills</th>"
    return f"<table><tr><th>policy</th>{heads}</tr>{''.join(rows)}</table>"


def _labelled(row: LabelRow) -> str:
    rows = "".join(
        f'<tr><td class="dot">{"●" if i in row.evidence else ""}</td><td class="number">{i}</td>'
        f'<td class="says">{escape(_short(row.blocks[i]))}</td><td class="number">{row.attention[i]:.1%}</td>'
        f'<td class="number">{_alone(row, i)}</td></tr>'
        for i in shown_lines(row)
    )
    return (
        f'<p class="answer">{escape(row.question)} <b>{escape(row.answer)}</b></p>'
        '<div class="scroll"><table><tr><th></th><th class="number">line</th><th>text</th>'
        f'<th class="number">attention</th><th class="number">alone</th></tr>{rows}</table></div>'
    )


def _alone(row: LabelRow, i: int) -> str:
    """Whether line ``i`` is enough for the answer when all others are hidden."""
    return "enough" if row.sufficient[i] else "not enough"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"

"""What ``keepset explain`` found, once, for a terminal, a browser and a program. Imports no torch."""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table
from rich.text import Text

SCHEMA_VERSION = 1
FLOOR = 0.25
"""Nats under which an effect is not pointed out; the paper's floor."""
NARROW = 76
"""Columns under which the numbers go below the text."""
BAR = 8
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BlockReport(_Frozen):
    """One block and what hiding it did."""

    number: int
    start: int
    """Its first character in the context."""
    stop: int
    """One after its last character."""
    tokens: int
    drop: float
    """Nats of log-probability the answer loses when the block is hidden; negative where hiding helps."""
    measured: bool
    """By a forward of its own. False: a cheaper mode cleared the block together with others, and drop is 0."""
    flip: bool
    """The answer is given with everything visible, and not with this block hidden."""
    sufficient: bool
    """The answer is given with only this block visible."""
    attention: float
    """Share of the answer positions' attention, mean over them, over layers and over heads."""
    evidence: bool
    """In the evidence set."""


class Answers(_Frozen):
    """What the model writes, greedily."""

    clean: str
    """With everything visible."""
    only_evidence: str
    """With only the evidence set visible."""
    without_evidence: str
    """With the evidence set hidden."""
    no_context: str
    """With every block hidden."""


class CostReport(_Frozen):
    """What it took, everything included."""

    forwards: int
    """Calls of the model; one runs many keep sets side by side."""
    keep_sets: int
    """Keep sets run."""
    tokens: int
    """Token positions that went through the model."""
    seconds: float
    effect_tokens: int
    """The part of ``tokens`` that measured drops, flips and sufficiency."""
    plain_tokens: int
    """What 2N + 1 forwards of the whole prompt take for the same effects."""

    @property
    def multiple(self) -> float:
        """How many times as many tokens the plain way takes."""
        return self.plain_tokens / self.effect_tokens


class Report(_Frozen):
    """Which blocks of a context an answer depends on."""

    schema_version: int = SCHEMA_VERSION
    model: str
    mode: str
    """How effects were measured: exact, grouped or certified."""
    context: str
    question: str
    opening: str
    """The model's own words before the answer: visible while blocks are hidden, and not part of what is measured."""
    answer: str
    generated: bool
    """The answer is the model's own; False when it was given."""
    gives_answer: bool
    """The model gives the answer with everything visible."""
    knows_answer: bool
    """The model gives the answer with every block hidden."""
    log_prob: float
    """Log-probability of the answer with everything visible."""
    case: Literal["alternatives", "necessary", "empty"]
    """Each block of the evidence set is enough alone; or none is, and each is necessary; or it is empty."""
    family: tuple[tuple[int, ...], ...]
    """Minimal sufficient sets that were found."""
    complete: bool
    """There are no others, if hiding more never repairs the answer."""
    blocks: tuple[BlockReport, ...]
    answers: Answers
    cost: CostReport

    @property
    def evidence(self) -> tuple[int, ...]:
        """The numbers of the blocks in the evidence set."""
        return tuple(block.number for block in self.blocks if block.evidence)

    def text(self, block: BlockReport) -> str:
        return self.context[block.start : block.stop].strip()

    def shade(self, block: BlockReport) -> float:
        """The effect of a block between -1 and 1, against the largest of the report (and at least one nat)."""
        return block.drop / max(1.0, *(abs(other.drop) for other in self.blocks))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; the fields are those of this class."""
        return self.model_dump(mode="json")

    def to_html(self) -> str:
        """One page that needs nothing else."""
        from keepset.explain.page import page

        return page(self)

    def show(self, console: Console | None = None) -> None:
        """Prints the report."""
        console = console or Console()
        console.print(_heading(self))
        console.print(_wide(self) if console.width >= NARROW else _narrow(self))
        console.print("\nWhat the model writes", style="bold")
        console.print(_answers(self))
        console.print()
        console.print(cost_line(self), style="dim", highlight=False)


def verdict(report: Report) -> str:
    """The evidence set in a sentence."""
    named, necessary = number_list(report.evidence), [block.number for block in report.blocks if block.flip]
    one = len(report.evidence) == 1
    if report.case == "necessary":
        if one:
            return f"Block {named} is necessary, and not enough alone: hiding it loses the answer."
        return f"No block is enough alone; hiding any one of the blocks {named} loses the answer."
    if report.case == "empty":
        return "Nothing: no block is enough alone, and no single block is necessary."
    enough = f"Block {named} alone is enough" if one else f"Each of the blocks {named} is enough alone"
    if not report.gives_answer:
        return f"{enough} for the answer."
    if not necessary:
        return f"{enough}; no single block is necessary."
    which = f"block {number_list(necessary)}" if len(necessary) == 1 else f"any one of {number_list(necessary)}"
    which = "it" if one and necessary == [*report.evidence] else which
    return f"{enough}; hiding {which} loses the answer."


def remarks(report: Report) -> list[str]:
    """What a reader must know to read the numbers right."""
    found = []
    if not report.gives_answer:
        found.append(
            "The model does not give this answer with everything visible. Drops measure how much each block supports "
            "it; nothing can be necessary."
        )
    if report.knows_answer:
        found.append(
            "The model gives this answer with every block hidden, so a block that is enough alone says nothing about "
            "the block."
        )
    if report.case == "empty" and report.gives_answer:
        found.append("The answer may rest on blocks that stand in for one another: see the minimal sufficient sets.")
    cleared = sum(not block.measured for block in report.blocks)
    if cleared:
        found.append(
            f"{cleared} of {len(report.blocks)} blocks were not hidden one by one (mode {report.mode}); their drop is "
            "shown as 0."
        )
    return found


def family_line(report: Report) -> str:
    """The minimal sufficient sets."""
    if not report.family:
        return "none found"
    sets = " or ".join("{" + ", ".join(map(str, keep)) + "}" for keep in report.family)
    return (
        f"{sets} ({'no others, if hiding more never repairs the answer' if report.complete else 'there may be others'})"
    )


def cost_line(report: Report) -> str:
    cost = report.cost
    return (
        f"{cost.keep_sets:,} keep sets in {cost.forwards:,} forwards, {cost.tokens:,} tokens, {cost.seconds:.1f} s. "
        f"{2 * len(report.blocks) + 1:,} forwards of the whole prompt would take {cost.multiple:.1f} times the tokens "
        "of the effects."
    )


def answer_rows(report: Report) -> list[tuple[str, str]]:
    """Who reads what, and what the model then writes."""
    answers = report.answers
    return [
        ("with everything", answers.clean),
        ("only the evidence", answers.only_evidence),
        ("without the evidence", answers.without_evidence),
        ("no block at all", answers.no_context),
    ]


def number_list(numbers: tuple[int, ...] | list[int]) -> str:
    """3, 5 and 8."""
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def change(block: BlockReport) -> str:
    """The change of the answer's log-probability, signed."""
    return f"{-block.drop:+.2f}" if abs(block.drop) >= 0.005 else "0.00"


def _heading(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    source = f"written by {report.model}" if report.generated else "given"
    table.add_row("question", _plain(report.question))
    opening = _plain(f"{report.opening} … " if report.opening else "", "dim")
    table.add_row(
        "answer", Text.assemble(opening, " " * bool(opening), _plain(report.answer), (f"  ({source})", "dim"))
    )
    table.add_row("evidence", Text(verdict(report), style="green" if report.evidence else ""))
    table.add_row("sets", Text(family_line(report)))
    for remark in remarks(report):
        table.add_row("note", Text(remark, style="yellow"))
    return table


def _wide(report: Report) -> Table:
    table = Table(
        caption="● evidence set   if hidden: change of the answer's log-probability, in nats   "
        "alone: this block alone is enough   attention: of the answer positions",
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("block", justify="right", no_wrap=True)
    table.add_column("text", ratio=1)
    table.add_column("if hidden", justify="right", no_wrap=True)
    table.add_column("alone", no_wrap=True)
    table.add_column("attention", no_wrap=True)
    most = max(block.attention for block in report.blocks)
    for block in report.blocks:
        table.add_row(
            Text("●" if block.evidence else "", style="green"),
            str(block.number),
            _plain(report.text(block), _style(report, block)),
            Text(f"{'lost ' if block.flip else ''}{change(block)}", style=_style(report, block)),
            "enough" if block.sufficient else "",
            Text(f"{block.attention:6.1%} {'▪' * round(BAR * block.attention / most if most else 0)}", style="cyan"),
        )
    return table


def _narrow(report: Report) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for block in report.blocks:
        numbers = (
            f"\n{'lost ' if block.flip else ''}{change(block)}{', enough alone' if block.sufficient else ''}"
            f", attention {block.attention:.1%}"
        )
        text = Text.assemble(_plain(report.text(block), _style(report, block)), (numbers, "dim"))
        table.add_row(Text("●" if block.evidence else " ", style="green"), str(block.number), text)
    return table


def _answers(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column()
    for name, said in answer_rows(report):
        table.add_row(name, _plain(said) or Text("(nothing)", style="dim"))
    return table


def _style(report: Report, block: BlockReport) -> str:
    if block.flip or report.shade(block) >= 0.5:
        return "bold red"
    if block.drop >= FLOOR:
        return "yellow"
    return "blue" if block.drop <= -FLOOR else ""


def _plain(text: str, style: str = "") -> Text:
    """Somebody's text on one line; it must not steer the terminal, nor be read as markup."""
    return Text(CONTROL.sub("�", " ".join(text.split())), style=style)

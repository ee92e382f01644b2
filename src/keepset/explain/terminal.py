"""The evidence report on a terminal. Nobody's text steers it."""

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keepset.explain.findings import BlockReport, Findings
from keepset.explain.words import FLOOR, answer_rows, change, cost_line, family_line, remarks, verdict

NARROW = 76
"""Columns under which the numbers go below the text."""
BAR = 8
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def show(report: Findings, console: Console) -> None:
    """Prints the report; on a narrow terminal the numbers stand below the text."""
    console.print(_heading(report))
    console.print(_wide(report) if console.width >= NARROW else _narrow(report))
    console.print("\nWhat the model writes", style="bold")
    console.print(_answers(report))
    console.print()
    console.print(cost_line(report), style="dim", highlight=False)


def _heading(report: Findings) -> Table:
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


def _wide(report: Findings) -> Table:
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


def _narrow(report: Findings) -> Table:
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


def _answers(report: Findings) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column()
    for name, said in answer_rows(report):
        table.add_row(name, _plain(said) or Text("(nothing)", style="dim"))
    return table


def _style(report: Findings, block: BlockReport) -> str:
    if block.flip or report.shade(block) >= 0.5:
        return "bold red"
    if block.drop >= FLOOR:
        return "yellow"
    return "blue" if block.drop <= -FLOOR else ""


def _plain(text: str, style: str = "") -> Text:
    """Somebody's text on one line; it must not steer the terminal, nor be read as markup."""
    return Text(CONTROL.sub("�", " ".join(text.split())), style=style)

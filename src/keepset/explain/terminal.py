"""The report in a terminal: the reply with its sources, then each part and the blocks it rests on."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keepset.explain.findings import Findings, PartReport
from keepset.explain.words import (
    ANYWAY,
    alone_line,
    cited,
    cost_line,
    doubt,
    missed,
    missed_line,
    remarks,
    reply_rows,
    source_line,
    verdict,
)
from keepset.terminal import one_line

BAR = 10
"""Cells of a full bar."""
CLOSEST = 3
"""Blocks that come close whose text is shown; of a made-up sentence most of a document does."""
NARROW = 60
"""Columns under which there is no room for bars."""
STYLES = {"evidence": "bold green", "also says it": "green", "close": "yellow"}


def show(report: Findings, console: Console) -> None:
    """Prints the report."""
    if said_first := doubt(report):
        console.print(said_first, style="bold yellow")
    console.print(_heading(report))
    if block := missed(report):
        console.print(f"\n{missed_line(block)}", style="yellow", highlight=False)
        console.print(Padding(_plain(report.text(block)), (0, 0, 0, 2)))
        if alone := alone_line(report):
            console.print(_plain(alone))
    if not report.in_text and report.evidence:
        console.print("\nWhat the reply rests on all the same", style="bold")
    for part in report.parts:
        if part.spoken:
            console.print()
            _show_part(report, part, console)
    if any(part.evidence for part in report.parts):
        console.print("bars: how much of what the whole text adds the block restores alone", style="dim")
    anyway = [part for part in report.parts if not part.spoken]
    if anyway:
        console.print()
        console.print(ANYWAY if len(anyway) > 1 else verdict(anyway[0]))
        for part in anyway:
            console.print(Padding(_plain(f"“{part.text}”", "dim"), (0, 0, 0, 2)))
    console.print("\nWhat the model writes", style="bold")
    console.print(_grid(reply_rows(report), "cyan"))
    for remark in remarks(report):
        console.print(remark, style="yellow")
    console.print()
    console.print(cost_line(report), style="dim", highlight=False)


def _heading(report: Findings) -> Table:
    said = Text.assemble(_plain(cited(report)), (f"  ({source_line(report)})", "dim"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("question", _plain(report.question))
    table.add_row("reply" if report.generated else "answer", said)
    return table


def _show_part(report: Findings, part: PartReport, console: Console) -> None:
    console.print(Text.assemble("“", _plain(part.text), "”"))
    console.print(Padding(Text(verdict(part)), (0, 0, 0, 2)))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    closest = sorted(part.close, key=lambda number: -part.restored[number])[:CLOSEST]
    for number in (*part.evidence, *part.others, *sorted(closest)):
        role = part.role(number)
        shown = bar(part.restored[number]) if console.width >= NARROW else ""
        text = _plain(report.text(report.blocks[number]))
        table.add_row(Text(role, style=STYLES[role]), str(number), Text(shown, style="cyan"), text)
    console.print(Padding(table, (0, 0, 0, 2)))
    if more := len(part.close) - len(closest):
        blocks = "block comes" if more == 1 else "blocks come"
        console.print(Padding(Text(f"{more} more {blocks} close, no closer than these.", style="dim"), (0, 0, 0, 2)))


def bar(share: float) -> str:
    """A share between 0 and 1 in cells; nothing for less than nothing."""
    filled = round(BAR * min(1.0, max(0.0, share)))
    return "█" * filled + "░" * (BAR - filled)


def _grid(rows: list[tuple[str, str]], style: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style=style)
    table.add_column()
    for name, said in rows:
        table.add_row(name, _plain(said) or Text("(nothing)", style="dim"))
    return table


def _plain(text: str, style: str = "") -> Text:
    """Somebody's text on one line; it must not steer the terminal, nor be read as markup."""
    return Text(one_line(text), style=style)

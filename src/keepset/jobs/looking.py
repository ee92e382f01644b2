"""Labels on a terminal: ``keepset labels show | verify | stats``."""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keepset.jobs.labelling import LabelRow
from keepset.jobs.stored import LabelStatistics, check_labels, label_statistics, stored_rows, verify
from keepset.terminal import one_line, print_line

SHOWN_BLOCK = 160
"""Characters of a block that are shown."""


def show_rows(folder: Path, rows: int, line: int | None, console: Console) -> None:
    """The first ``rows`` rows, or the one of ``line``."""
    found = stored_rows(folder, check_labels(folder))
    chosen = [row for row in found if row.line == line] if line else list(islice(found, rows))
    if not chosen:
        raise ValueError(f"line: expected one with labels in {folder}, got {line}; rejects are in rejects.jsonl")
    for row in chosen:
        console.print(_row(row), soft_wrap=True)


def show_verified(folder: Path, console: Console) -> None:
    found = verify(folder)
    said = (
        f"{folder}: {len(found.manifest.shards):,} shards are as they were written, {found.labelled:,} rows labelled, "
        f"{found.rejected:,} rejects, each once{_missing(found)}"
    )
    print_line(console, said)


def show_statistics(folder: Path, console: Console) -> None:
    found = label_statistics(folder)
    rows = found.labelled
    job = found.manifest.job
    table = Table.grid(padding=(0, 2))
    lines: dict[str, str] = {
        "data": one_line(job.data),
        "model": f"{one_line(job.model)} ({job.dtype})",
        "rows with labels": f"{rows:,} of {found.manifest.rows:,}{_missing(found)}",
        "rejects": f"{found.rejected:,}{_counted(found.rejects)}",
        "rules": _counted(found.rules, ""),
        "the model answers": f"{found.answered:,}",
        "evidence": _counted(found.cases, ""),
        "blocks in it": _counted(found.evidence, ""),
        "blocks each": f"{found.blocks / max(rows, 1):.1f}",
        "tokens each": f"{found.tokens / max(rows, 1):.0f}",
        "tokens run": f"{found.cost:,} ({found.cost / max(found.tokens, 1):.1f} times those of the rows)",
    }
    for name, value in lines.items():
        table.add_row(Text(name, style="bold"), Text(value))
    console.print(table)


def _row(row: LabelRow) -> Text:
    text = Text(f"{row.line} {one_line(row.id)}: {one_line(row.question)} → {one_line(row.answer)}\n", style="bold")
    answers = "the model answers" if row.clean_correct else "the model does not answer"
    text.append(f"  {row.rule}, {row.case}, {answers}, {row.n_blocks} blocks\n", style="dim")
    for block in row.evidence:
        shown = one_line(row.blocks[block])
        text.append(f"  [{block}] {shown[:SHOWN_BLOCK]}{'…' if len(shown) > SHOWN_BLOCK else ''}\n", style="none")
    return text


def _counted(found: Counter[Any], before: str = ": ") -> str:
    return before + ", ".join(f"{one_line(str(name))} {n:,}" for name, n in found.most_common()) if found else ""


def _missing(found: LabelStatistics) -> str:
    return f"; {found.missing:,} rows are not labelled yet" if found.missing else ""

"""A table, once, as markdown and as LaTeX; a figure; and how numbers print."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from keepset.paper.result import Metric

_LATEX_SPECIALS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "&%$#_{}"
}
_LATEX_CHARACTERS = _LATEX_SPECIALS | {
    # In LaTeX's default font encoding these three print as other characters.
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "−": "$-$",
    "→": r"$\to$",
    "µ": r"$\mu$",
    "Δ": r"$\Delta$",
    "·": r"$\cdot$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
}

_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""Shrinks what is wider than the page, and only that."""


@dataclass(frozen=True)
class Table:
    """Cells are plain text; an empty row is a rule between groups."""

    name: str
    """File name and LaTeX label."""
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if row and len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: expected {len(self.columns)} cells, got {len(row)}: {row}")

    def markdown(self) -> str:
        lines = [f"# {self.name}", "", self.caption, ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "---|" * len(self.columns))
        for row in self.rows:
            if row:
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        align = "l" * 2 + "c" * (len(self.columns) - 2)
        body = [r"\midrule" if not row else " & ".join(map(latex_text, row)) + r" \\" for row in self.rows]
        notes = " ".join(self.notes)
        return "\n".join(
            [
                r"\begin{table}[!htbp]",
                rf"\caption{{{latex_text(f'{self.caption} {notes}'.strip())}}}",
                rf"\label{{{self.name}}}",
                r"\centering\footnotesize",
                _FIT,
                rf"\begin{{tabular}}{{{align}}}",
                r"\toprule",
                " & ".join(map(latex_text, self.columns)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
                "",
            ]
        )


@dataclass(frozen=True)
class Figure:
    """A picture as SVG text."""

    name: str
    svg: str


def spread(found: Sequence[float]) -> str:
    """The range, or the one value when all print alike."""
    low, high = f"{min(found):.2f}", f"{max(found):.2f}"
    return low if low == high else f"{low}–{high}"


def bracket(found: Sequence[float]) -> str:
    """Mean and range."""
    return f"{fmean(found):.2f} [{min(found):.2f}–{max(found):.2f}]"


def with_interval(metric: Metric) -> str:
    """A share and its 95 % interval."""
    return f"{metric.value:.2f} [{metric.low:.2f}, {metric.high:.2f}]"


def with_paper(value: float, paper: str, digits: int = 2) -> str:
    """A number with the paper's in brackets, where the paper has one."""
    return f"{value:.{digits}f} ({paper})" if paper else f"{value:.{digits}f}"


def beside(cells: Iterable[str], papers: Iterable[str]) -> tuple[str, ...]:
    """Each cell with the paper's in brackets."""
    return tuple(f"{cell} ({paper})" for cell, paper in zip(cells, papers, strict=True))


def latex_text(text: str) -> str:
    """Plain text with everything escaped that plain ``pdflatex`` does not print as it stands."""
    escaped = "".join(_LATEX_CHARACTERS.get(character, character) for character in text)
    if not escaped.isascii():
        unknown = sorted({character for character in escaped if not character.isascii()})
        raise ValueError(f"LaTeX: expected characters with a known command, got {' '.join(unknown)} in {text!r}")
    return escaped


def latex_document(tables: Iterable[Table]) -> str:
    """A document of all tables, each from its own file beside it."""
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[margin=1.5cm]{geometry}",
            r"\usepackage{booktabs}",
            r"\usepackage{graphicx}",
            r"\setlength{\belowcaptionskip}{6pt}",
            r"\begin{document}",
            *(rf"\input{{{table.name}.tex}}\clearpage" for table in tables),  # so many floats without text need pages
            r"\end{document}",
            "",
        ]
    )

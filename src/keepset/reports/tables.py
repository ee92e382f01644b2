"""A table, once, as markdown and as LaTeX."""

from dataclasses import dataclass

_LATEX_SPECIALS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "&%$#_{}"
}


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
                rf"\begin{{tabular}}{{{align}}}",
                r"\toprule",
                " & ".join(map(latex_text, self.columns)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def latex_text(text: str) -> str:
    """Plain text with LaTeX's special characters escaped."""
    escaped = "".join(_LATEX_SPECIALS.get(character, character) for character in text)
    return escaped.replace("×", r"$\times$").replace("≥", r"$\geq$").replace("–", "--").replace("±", r"$\pm$")

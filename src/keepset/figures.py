"""Figures as SVG text: the same bytes from the same numbers, so that a test can hold them to the results."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "keepset",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
COLOURS = {"causal": "#0b6e4f", "attention": "#c8553d", "ablation": "#7a6c9d", "other": "#8a8d91"}


def svg(figure: Figure) -> str:
    """The figure as SVG, without a date or random names; colours do not depend on the viewer's theme."""
    text = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def new_figure(width: float = 5.0, height: float = 3.2) -> Figure:
    """An empty figure in the house style."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.add_subplot()
    return figure

"""The package as a picture: which stage imports which, from the source alone.

Stages stand on the diagonal in reading order; a number in the row of one and the column of another says how many files
of the first import the second. Everything below the diagonal: nobody imports what comes later. An empty corner between
the two frames: the library never imports the laboratory.
"""

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from keepset.figures import new_figure, svg

PACKAGE = Path(__file__).parents[1]
REPOSITORY = PACKAGE.parents[1]

BASE = ("lazily", "files", "terminal", "blocks", "seeds", "versions", "statistics", "figures")
STAGES = (
    "text",
    "models",
    "interventions",
    "readouts",
    "labels",
    "routers",
    "policies",
    "pruning",
    "compression",
    "explain",
    "jobs",
    "integrations",
    "explore",
)
"""Folder order is reading order, and a stage imports only stages before it."""
FRONT = ("__init__", "__main__", "cli", "doctor", "quickstart", "quickstart_page")
"""May import every stage; no stage imports them. ``cli/laboratory.py`` alone reaches the laboratory, lazily."""
PAPER = "paper"

REPORTING = (
    "result",
    "results",
    "statistics",
    "claim",
    "table",
    "words",
    "terminal",
    "experiment",
    "catalogue",
    "paper_map",
    "front_page",
    "claims_file",
    "durations",
    "report",
    "pages",
    "import_graph",
)
"""Files of the laboratory that know of no experiment: what a number, a table and an experiment are."""
LIBRARY = ("base", *STAGES)
LABORATORY = ("reporting", "testbed", "experiments", "bench", "eviction", "evidence", "natural", "pretrained")
"""In reading order as well; what has no folder of its own here is among the experiments."""
TRACKED_FRONT = ("quickstart", "fact_sheets", "kvpress")
"""What of the laboratory runs a command as it stands, and so imports the front."""
ORDER = (*LIBRARY, *LABORATORY, "front", *TRACKED_FRONT)

Edges = dict[tuple[str, str], int]
"""Importing stage and imported stage -> files of the first that import the second."""

LEGEND = "a number: files of the\nrow's stage that import\nthe column's"
NUMBER = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
STAGE = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "black", "linewidth": 0.8}


class Size(NamedTuple):
    """How much there is of one wing."""

    files: int
    lines: int


def sources() -> list[str]:
    """Every file of the package, as a path inside it."""
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imports(source: str, file: str) -> list[tuple[str, bool]]:
    """Every name imported anywhere in ``source`` (``torch.nn.functional``); whether importing the file runs it."""
    found = []
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(source), True)]
    for node, now in waiting:  # grows while it is read
        waiting += [(child, now and not runs_later(node)) for child in ast.iter_child_nodes(node)]
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ["keepset", *file.split("/")[:-1]]
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join(above + ([node.module] if node.module else []))
            names = {f"{module}.{alias.name}" for alias in node.names}
        found += [(name, now) for name in sorted(names)]
    return found


def runs_later(node: ast.AST) -> bool:
    """Not run when the file is imported: a function, or what only a type checker reads."""
    checking = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return checking or isinstance(node, ast.FunctionDef)


def stage(parts: list[str]) -> str:
    """The stage of a module, given as the parts of its name below ``keepset``."""
    first, *rest = parts or ["__init__"]
    if first in STAGES:
        return first
    if first in BASE:
        return "base"
    if first != PAPER:
        return "front"
    inside = rest[0] if rest else "__init__"
    if inside in (*LABORATORY, *TRACKED_FRONT):
        return inside
    return "reporting" if inside in (*REPORTING, "__init__") else "experiments"


def edges() -> Edges:
    """Who imports whom, over the whole package."""
    files: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file in sources():
        importer = stage(file.removesuffix(".py").split("/"))
        for name, _ in imports((PACKAGE / file).read_text(encoding="utf-8"), file):
            top, *rest = name.split(".")
            if top == "keepset" and stage(rest) != importer:
                files[importer, stage(rest)].add(file)
    return {pair: len(found) for pair, found in sorted(files.items())}


def sizes() -> dict[str, Size]:
    """Files and lines of the library, the laboratory and the tests."""
    laboratory = list((PACKAGE / PAPER).rglob("*.py"))
    wings = {
        "library": [path for path in PACKAGE.rglob("*.py") if path not in laboratory],
        "laboratory": laboratory,
        "tests": list((REPOSITORY / "tests").rglob("*.py")),
    }
    return {
        wing: Size(len(paths), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths))
        for wing, paths in wings.items()
    }


def import_graph() -> str:
    """The picture, as SVG."""
    found = edges()
    place = {name: i for i, name in enumerate(name for name in ORDER if any(name in pair for pair in found))}
    figure = new_figure(8.6, 7.0)
    axes = figure.axes[0]
    axes.set_axis_off()
    axes.set_xlim(-0.7, len(place) + 0.7)
    axes.set_ylim(len(place) - 0.3, -0.7)
    frame(axes, "library", [place[name] for name in LIBRARY if name in place])
    frame(axes, "laboratory", [place[name] for name in LABORATORY if name in place])
    axes.text(len(place) + 0.5, 0, LEGEND, ha="right", va="top", fontsize=8)
    for importer, imported in found:
        row, column = place[importer], place[imported]
        axes.plot([column, column, row], [column, row, row], color="0.85", linewidth=0.7, zorder=0)
    for (importer, imported), n in found.items():
        axes.text(place[imported], place[importer], str(n), ha="center", va="center", fontsize=8, bbox=NUMBER)
    for name, i in place.items():
        axes.text(i - 0.25, i, name, ha="left", va="center", fontsize=8, fontweight="bold", bbox=STAGE)
    return svg(figure)


def frame(axes: Axes, name: str, places: list[int]) -> None:
    """A dashed frame around the stages of one wing, wide enough for the name of its last."""
    low, size = min(places) - 0.5, len(places)
    width = size + 0.9
    axes.add_patch(Rectangle((low, low), width, size, fill=False, edgecolor="black", linestyle="--", linewidth=0.8))
    axes.text(low + width - 0.1, low + 0.15, name, ha="right", va="top", fontsize=10, style="italic")

"""Stage 11: JSON in; tables and figures out. Imports no torch."""

from pathlib import Path

from keepset.files import write_text
from keepset.reports.engine import engine_table, peers_table
from keepset.reports.optimizers import optimizers_table
from keepset.reports.sanity import sanity_table
from keepset.reports.tables import Table
from keepset.reports.teachers import conditions_table, teachers_table
from keepset.results import load_results

__all__ = ["render_reports", "write_reports"]


def render_reports(results: Path) -> dict[str, str]:
    """File name -> text, for every table the results allow."""
    small = results / "small"
    teachers = load_results(small / "teachers", "teachers")
    tables: list[Table] = []
    if teachers:
        tables += [teachers_table(teachers), conditions_table(teachers)]
    solve = load_results(small / "optimizers", "optimizers")
    if solve:
        tables.append(optimizers_table(solve))
    sanity = load_results(small / "sanity", "sanity")
    if sanity:
        tables.append(sanity_table(sanity))
    engine = load_results(small / "bench", "engine")
    if engine:
        tables.append(engine_table(engine))
    if any("captum_seconds" in {metric.name for metric in result.metrics} for result in engine):
        tables.append(peers_table(engine))
    rendered = {}
    for table in tables:
        rendered[f"{table.name}.md"] = table.markdown()
        rendered[f"{table.name}.tex"] = table.latex()
    return rendered


def write_reports(results: Path, out: Path) -> list[Path]:
    """Writes every report and returns the paths."""
    if not results.is_dir():
        raise ValueError(f"results folder: expected {results} to exist; run from the repository, or pass --results")
    written = []
    for name, text in render_reports(results).items():
        write_text(out / name, text)
        written.append(out / name)
    return written

"""Stage 11: JSON in; tables and figures out. Imports no torch."""

from collections.abc import Callable
from pathlib import Path

from keepset.files import write_text
from keepset.reports import families, labels, routing
from keepset.reports.engine import engine_table, peers_table
from keepset.reports.optimizers import optimizers_table
from keepset.reports.sanity import sanity_table
from keepset.reports.tables import Table
from keepset.reports.teachers import conditions_table, teachers_table
from keepset.results import RunResult, load_results

__all__ = ["render_reports", "write_reports"]


def render_reports(results: Path) -> dict[str, str]:
    """File name -> text, for every table and figure the results allow."""
    small = results / "small"
    rendered: dict[str, str] = {}
    for table in all_tables(small):
        rendered[f"{table.name}.md"] = table.markdown()
        rendered[f"{table.name}.tex"] = table.latex()
    agreement = load_results(small / "agreement", "agreement")
    if agreement:
        rendered["fig-redundancy.svg"] = labels.redundancy_figure(agreement)
    routed = load_results(small / "routing", "routing")
    if routed:
        rendered["fig-gap.svg"] = routing.gap_figure(routed)
    return rendered


def all_tables(small: Path) -> list[Table]:
    """Every table whose results are there, in the order of the paper."""
    teachers = load_results(small / "teachers", "teachers")
    agreement = load_results(small / "agreement", "agreement")
    recovery = load_results(small / "recovery", "recovery")
    engine = load_results(small / "bench", "engine")
    routed = load_results(small / "routing", "routing")
    every_source = routed if routed and len(routed) == len(routed[0].config["teachers"]) else []
    peers = [result for result in engine if result.config["peer_units"]]
    makers: list[tuple[Callable[[list[RunResult]], Table], list[RunResult]]] = [
        (teachers_table, teachers),
        (conditions_table, teachers),
        (optimizers_table, load_results(small / "optimizers", "optimizers")),
        (sanity_table, load_results(small / "sanity", "sanity")),
        (labels.agreement_table, agreement),
        (labels.pairs_table, agreement),
        (labels.stale_table, agreement),
        (labels.minimality_table, load_results(small / "minimality", "minimality")),
        (labels.recovered_table, recovery),
        (labels.temperature_table, load_results(small / "recovery", "temperature")),
        (families.redundant_table, load_results(small / "redundant", "redundant")),
        (families.families_table, load_results(small / "redundant", "redundant")),
        (routing.routing_table, routed),
        (routing.per_teacher_table, routed),
        (routing.own_teacher_table, every_source),
        (routing.transfer_table, every_source),
        (engine_table, engine),
        (peers_table, peers),
    ]
    return [make(found) for make, found in makers if found]


def write_reports(results: Path, out: Path) -> list[Path]:
    """Writes every report and returns the paths."""
    if not results.is_dir():
        raise ValueError(f"results folder: expected {results} to exist; run from the repository, or pass --results")
    written = []
    for name, text in render_reports(results).items():
        write_text(out / name, text)
        written.append(out / name)
    return written

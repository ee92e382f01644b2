"""Stage 11: JSON in; tables and figures out. Imports no torch."""

from collections.abc import Callable
from pathlib import Path

from keepset.files import write_text
from keepset.reports import ablation, budget, chains, eviction, families, labels, orderings, protocols, routing
from keepset.reports.differences import differences_page
from keepset.reports.engine import engine_table, peers_table, router_table
from keepset.reports.eviction_figure import scale_figure
from keepset.reports.eviction_orderings import eviction_orderings
from keepset.reports.memory import memory_table
from keepset.reports.optimizers import optimizers_table
from keepset.reports.prune import prune_table
from keepset.reports.sanity import sanity_table
from keepset.reports.tables import Table, latex_document
from keepset.reports.teachers import conditions_table, teachers_table
from keepset.results import RunResult, load_results

__all__ = ["render_reports", "write_reports"]


def render_reports(results: Path) -> dict[str, str]:
    """File name -> text, for every table and figure the results allow."""
    small = results / "small"
    rendered: dict[str, str] = {}
    tables = all_tables(small)
    for table in tables:
        rendered[f"{table.name}.md"] = table.markdown()
        rendered[f"{table.name}.tex"] = table.latex()
    if tables:
        rendered["tables.tex"] = latex_document(tables)
    agreement = load_results(small / "agreement", "agreement")
    if agreement:
        rendered["fig-redundancy.svg"] = labels.redundancy_figure(agreement)
    routed = load_results(small / "routing", "routing")
    if routed:
        rendered["fig-gap.svg"] = routing.gap_figure(routed)
    chained = load_results(small / "chains", "chains")
    if routed and chained:
        rendered["fig-routing.svg"] = routing.routing_figure(routed, chained)
    budgets = load_results(small / "budget", "budget")
    if budgets:
        rendered["fig-budget.svg"] = budget.budget_figure(budgets)
    scale = scale_figure(load_results(small / "eviction", "eviction"))
    if scale is not None:
        rendered["fig-eviction-scale.svg"] = scale
    if rendered:
        rendered["README.md"] = differences_page(small, list(rendered))
    return rendered


def all_tables(small: Path) -> list[Table]:
    """Every table whose results are there, in the order of the paper."""
    teachers = load_results(small / "teachers", "teachers")
    agreement = load_results(small / "agreement", "agreement")
    recovery = load_results(small / "recovery", "recovery")
    engine = load_results(small / "bench", "engine")
    routed = load_results(small / "routing", "routing")
    every_source = routed if routed and len(routed) == len(routed[0].config["teachers"]) else []
    oracles = load_results(small / "oracles", "oracles")
    chain_routed = load_results(small / "chains", "chains")
    hardened = load_results(small / "hardened", "hardened")
    peers = [result for result in engine if result.config["peer_units"]]
    makers: list[tuple[Callable[..., Table], *tuple[list[RunResult], ...]]] = [
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
        (chains.chain_table, chain_routed, oracles),
        (chains.per_teacher_table, chain_routed),
        (chains.budget_readouts_table, oracles),
        (chains.trace_supervision_table, chain_routed, oracles, hardened),
        (chains.hardened_table, hardened),
        (chains.recovered_routing_table, load_results(small / "recovered_routing", "recovered_routing")),
        (chains.family_routing_table, load_results(small / "family_routing", "family_routing")),
        (ablation.ablation_table, load_results(small / "ablation", "ablation")),
        (ablation.ablation_per_teacher_table, load_results(small / "ablation", "ablation")),
        (ablation.guard_table, load_results(small / "guard", "guard")),
        (budget.budget_table, load_results(small / "budget", "budget")),
        (protocols.per_query_table, load_results(small / "per_query", "per_query")),
        (engine_table, engine),
        (peers_table, peers),
        (memory_table, *(load_results(small / "bench", f"memory{of}") for of in ("", "-readouts", "-policies"))),
        (router_table, load_results(small / "bench", "router")),
        (prune_table, load_results(small / "bench", "prune")),
    ]
    tables = [make(*found) for make, *found in makers if all(found)]
    evicted = load_results(small / "eviction", "eviction")
    if evicted:
        tables += [*eviction.eviction_tables(evicted), eviction_orderings(evicted)]
    lines = ordering_lines(small)
    return [*tables, orderings.orderings_table(lines)] if lines else tables


def ordering_lines(small: Path) -> list[orderings.Line]:
    """What can be said of the paper's orderings with the results that are there."""
    sections: tuple[tuple[str, Callable[[list[RunResult]], list[orderings.Line]]], ...] = (
        ("routing", orderings.single_record_lines),
        ("chains", orderings.chain_lines),
        ("ablation", orderings.pooling_lines),
        ("per_query", orderings.per_query_lines),
        ("budget", orderings.aggregation_lines),
    )
    found = [(load_results(small / experiment, experiment), lines) for experiment, lines in sections]
    return [line for results, lines in found if results for line in lines(results)]


def write_reports(results: Path, out: Path) -> list[Path]:
    """Writes every report and returns the paths."""
    if not results.is_dir():
        raise ValueError(f"results folder: expected {results} to exist; run from the repository, or pass --results")
    written = []
    for name, text in render_reports(results).items():
        write_text(out / name, text)
        written.append(out / name)
    return written

"""``keepset report``: every table, figure, claim and difference, and the paper map, from the results alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from keepset.explore.claims import NOT_THE_PAPERS
from keepset.files import write_text
from keepset.paper.catalogue import claims, every_number, experiments
from keepset.paper.claim import FAILS, FEWEST, HOLDS, OPEN, Claim
from keepset.paper.claims_file import claims_file
from keepset.paper.durations import durations_file
from keepset.paper.experiment import Experiment, Report
from keepset.paper.front_page import write_front_page
from keepset.paper.import_graph import import_graph
from keepset.paper.paper_map import paper_map
from keepset.paper.results import Results, read_results
from keepset.paper.table import Figure, Table, latex_document

SECTIONS = {
    "teachers": "Teachers and sanity anchors",
    "labels": "Labels: attention, ablation, evidence sets, recovery",
    "routing": "Routers on single records",
    "chains": "Routers on chains",
    "pretrained": "Records in natural language on frozen pretrained models",
    "eviction": "Pruning long documents",
    "cost": "What it costs",
}

CAUSES_AT = "small"
"""The scale whose differences were looked into; at another, the same cause would be a guess."""


def made(report: Report, experiment: Experiment, results: Results) -> list[Table | Figure]:
    """What a report makes; nothing where a result it needs is missing."""
    needed = (experiment.name, *report.needs)
    if not all(results.of(name) for name in needed):
        return []
    with every_number(report.label, experiment):
        found = report.make(results.of(*needed))
    return [found] if isinstance(found, Table | Figure) else list(found)


def every_report(results: Results) -> Iterator[tuple[Experiment, Report, list[Table | Figure]]]:
    """Experiment by experiment, in the order of the paper."""
    for experiment in experiments().values():
        for report in experiment.reports:
            yield experiment, report, made(report, experiment, results)


def render_reports(results: Results) -> dict[str, str]:
    """Path below ``docs`` -> text, for every table, figure, claim and difference the results allow."""
    rendered: dict[str, str] = {}
    tables: list[Table] = []
    files: dict[str, list[str]] = {}
    for experiment, report, found in every_report(results):
        for item in found:
            if isinstance(item, Table):
                tables.append(item)
                path = f"results/{report.section}/{item.name}.md"
                rendered[path] = item.markdown()
                rendered[f"results/tex/{item.name}.tex"] = item.latex()
            else:
                path = f"results/{report.section}/{item.name}.svg"
                rendered[path] = item.svg
            files.setdefault(f"{experiment.name}/{report.label}", []).append(path)
    rendered["results/tex/tables.tex"] = latex_document(tables)
    rendered["results/README.md"] = index(results, rendered)
    rendered["results/claims.json"] = claims_file(claims(results), SECTIONS, rendered)
    rendered["results/durations.json"] = durations_file(results)
    rendered["paper-map.md"] = paper_map(files, results.scale)
    rendered["images/import-graph.svg"] = import_graph()
    return rendered


def render_one(label: str, results: Results) -> str:
    """The tables (markdown) and figures (SVG) called ``label``: a label of the paper or a name in ``docs/results``.

    A run that was stopped halfway is said only where its own table is asked for.
    """
    known: list[str] = []
    halfway: ValueError | None = None
    for experiment in experiments().values():
        for report in experiment.reports:
            try:
                found = made(report, experiment, results)
            except ValueError as missing:
                if label in report.labels:
                    raise
                halfway = halfway or missing
                continue
            names = [*report.labels, *(item.name for item in found)]
            known += names
            if label in names:
                chosen = [item for item in found if item.name == label]
                if not found:
                    raise ValueError(f"{label}: its results are not there yet; 'keepset reproduce {label}' makes them")
                return "\n".join(item.markdown() if isinstance(item, Table) else item.svg for item in chosen or found)
    if halfway:
        raise halfway
    raise ValueError(f"unknown table or figure {label!r}; expected one of {', '.join(sorted(set(known)))}")


def differences(experiment: Experiment, results: Results) -> Iterator[tuple[str, str, str, str]]:
    """Where an experiment's numbers differ from the paper's: what, the paper's, ours, the likeliest cause."""
    for difference in experiment.differences:
        needed = (experiment.name, *difference.needs)
        if all(results.of(name) for name in needed):
            with every_number(difference.result, experiment):
                here = difference.here(results.of(*needed))
            cause = difference.cause if results.scale == CAUSES_AT else "not looked into at this scale"
            yield difference.result, difference.paper, here, cause


def index(results: Results, rendered: dict[str, str]) -> str:
    """``docs/results/README.md``: each claim with its verdict, what failed first; differences; every table."""
    lines = [
        "# Results",
        "",
        "Written by `keepset report` from the files in `results/`; a test holds the two together byte for byte. Scale",
        f"`{results.scale}` throughout. What does not hold here stands first.",
        "",
        *contradictions(results),
        "## What the paper claims",
        "",
        "An ordering of routers is judged by a 95 % interval over teachers, routers and examples together, where",
        "examples count once, paired where their outcomes are tracked, and identical differences are one observation;",
        f"a bar for each of several, by the interval of each. Under {FEWEST} independent units nothing is told.",
        "",
        "| claim | paper | here | n | verdict | command |",
        "|---|---|---|---|---|---|",
    ]
    order = (FAILS, OPEN, HOLDS)
    for experiment, claim in sorted(claims(results), key=lambda pair: order.index(pair[1].verdict)):
        cells = (claim.claim, claim.paper, claim.here, claim.n, f"**{claim.verdict}**", f"`{experiment.command}`")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Where a number differs from the paper", ""]
    lines += ["| result | paper | here | likeliest cause |", "|---|---|---|---|"]
    for experiment in experiments().values():
        lines += [f"| {' | '.join(row)} |" for row in differences(experiment, results)]
    for section, title in SECTIONS.items():
        inside = sorted(path.removeprefix("results/") for path in rendered if path.startswith(f"results/{section}/"))
        if inside:
            lines += ["", f"## {title}", "", *(f"- [{path.split('/')[1]}]({path})" for path in inside)]
    return "\n".join(lines) + "\n"


def contradictions(results: Results) -> list[str]:
    """What fails of the paper's own claims, and what was done to tell whether a choice of ours is the cause."""
    failed = [claim for _, claim in claims(results) if claim.verdict == FAILS and claim.paper not in NOT_THE_PAPERS]
    contradicting = [claim for claim in failed if not claim.bar_is_ours]
    missed = [claim for claim in failed if claim.bar_is_ours]
    return [
        *failed_table(
            "What contradicts the paper",
            (
                "The last column names the run that varies our own choice; without one, the cause may be ours as well "
                "as the\npaper's."
            ),
            contradicting,
        ),
        *failed_table(
            "Bars of ours that are missed",
            "The paper's own figures miss them too, for models of this size or altogether.",
            missed,
        ),
    ]


def failed_table(title: str, about: str, failed: Sequence[Claim]) -> list[str]:
    """A section, where there is anything to put into it."""
    head = [f"## {title}", "", about, "", "| claim | paper | here | is it a choice of ours? |", "|---|---|---|---|"]
    rows = [f"| {claim.claim} | {claim.paper} | {claim.here} | {claim.own_choice} |" for claim in failed]
    return [*head, *rows, ""] if rows else []


def write_reports(results: Path, docs: Path, scale: str) -> list[Path]:
    """Writes every report, and the lines of the README beside ``docs``; returns the paths."""
    found = read_results(results, scale)
    written = []
    for name, text in render_reports(found).items():
        write_text(docs / name, text)
        written.append(docs / name)
    return written + write_front_page(docs.parent / "README.md", found)

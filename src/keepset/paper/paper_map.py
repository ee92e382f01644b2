"""``docs/paper-map.md``: each table and figure of the paper, what makes it, where it is; where the paper is silent."""

from collections.abc import Iterator, Mapping, Sequence

from keepset.paper.catalogue import experiments
from keepset.paper.experiment import Experiment, Report

PAPER = (
    "tab:tasks",
    "tab:routing",
    "tab:chain",
    "tab:pretrained",
    "fig:eviction-scale",
    "tab:recovered",
    "fig:budget",
    "fig:redundancy",
    "fig:routing",
    "fig:pretrained",
    "tab:app-teachers",
    "tab:app-routing",
    "tab:app-ablation",
    "tab:app-agreement",
    "tab:app-guard",
    "tab:app-pretrained-unique",
    "tab:overwrite",
    "tab:scaling",
    "tab:agreement",
    "tab:ablation",
    "fig:gap",
    "tab:chain-per-teacher",
    "tab:per-query",
    "tab:temperature",
    "tab:redundant",
    "tab:budget-readouts",
    "tab:app-own-teacher",
    "tab:app-transfer",
    "tab:sink",
    "tab:trace-pretrained",
    "tab:budget-sink",
    "tab:prefix",
    "tab:trace-supervision",
    "tab:two-hop-readouts",
    "tab:two-hop-router",
    "tab:eviction",
    "tab:app-span-audit",
    "tab:qa",
    "tab:pq8k",
    "tab:pq16k",
    "tab:pq-staleany",
    "tab:pq-seeds",
    "tab:pq3b8k",
    "tab:pq3b16k",
    "tab:pq32k",
    "tab:pqllama8k",
    "tab:pqllama16k",
    "tab:pq32b8k",
    "tab:pq32b16k",
    "tab:pq-staleany-fs",
    "tab:restkv",
    "tab:qasper-pilot",
    "tab:qasper-router",
)
"""Every labelled table and figure, in the order of the paper."""


def paper_map(files: Mapping[str, Sequence[str]], scale: str) -> str:
    """``files``: 'experiment/label' -> the pages of a report, below ``docs``."""
    lines = [
        "# The paper, result by result",
        "",
        "Each table and figure of *Learning What Matters: Supervising Global Context Pruning with Causal Evidence",
        "Sets*, the command that makes its results and the pages that show it. Written by `keepset report`. Scale is",
        f"`{scale}`.",
        "",
        "| paper | command | results | pages |",
        "|---|---|---|---|",
        *rows(files, scale, beyond=False),
    ]
    there = {label for _, report in every_report() for label in report.labels}
    missing = [label for label in PAPER if label not in there]
    lines += [f"| {', '.join(f'`{label}`' for label in missing)} | not yet | | |"] if missing else []
    lines += ["", "Beyond the paper:", "", "| what | command | results | pages |", "|---|---|---|---|"]
    lines += rows(files, scale, beyond=True)
    lines += ["", "## Where the paper is silent", "", "| question | choice |", "|---|---|"]
    lines += [f"| {c.question} | {c.choice} |" for e in experiments().values() for c in e.choices]
    return "\n".join(lines) + "\n"


def every_report() -> Iterator[tuple[Experiment, Report]]:
    for experiment in experiments().values():
        for report in experiment.reports:
            yield experiment, report


def rows(files: Mapping[str, Sequence[str]], scale: str, beyond: bool) -> Iterator[str]:
    for experiment, report in every_report():
        if report.beyond == beyond:
            label = ", ".join(f"`{part}`" if part in report.labels else part for part in report.label.split(", "))
            folders = ", ".join(f"`results/{scale}/{name}/`" for name in (experiment.name, *report.needs))
            pages = [f"[{path.split('/')[-1]}]({path})" for path in files.get(f"{experiment.name}/{report.label}", ())]
            shown = ", ".join(pages) if pages else "not yet"
            yield f"| {label} | `{experiment.command}` | {folders} | {shown} |"

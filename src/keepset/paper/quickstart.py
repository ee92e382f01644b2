"""The quickstart's own table, tracked: what a newcomer sees in the first minutes, with how much stands behind it."""

import tempfile
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from keepset import seeds
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import At, Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import clustered_share
from keepset.paper.table import Table, with_interval
from keepset.quickstart import QUICKSTART_RUN, QuickstartSize, run_quickstart

NAME = "quickstart"
MODEL = "smollm2-135m-instruct"


def jobs(scale: str) -> Jobs:
    """One run: the command as it stands. An untrained model answers nothing, so there is none at smoke."""
    return {} if scale == "smoke" else {f"{NAME}/{MODEL}": partial(run, scale)}


def run(scale: str) -> RunResult:
    """``keepset quickstart`` into a folder that is thrown away."""
    started = time.monotonic()
    size = QuickstartSize()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_quickstart(Path(folder) / "quickstart", Console(stderr=True), MODEL, size)
    metrics = []
    for count in outcome.counts:
        at: At = {"policy": count.policy, "budget": count.budget, "told": count.told}
        metrics.append(clustered_share("preserved", count.preserved_each, outcome.answers_each, **at))
        metrics.append(Metric(what="facts_kept", at=at, value=count.facts_kept / outcome.answers, n=outcome.answers))
        metrics.append(Metric(what="prefills", at=at, value=count.cost, n=outcome.documents))
    return run_result(
        NAME,
        scale,
        started,
        at={"model": MODEL},
        config={
            "tokens": size.held_out_tokens,
            "budgets": list(size.budgets),
            "blocks": "line",
            "steps": size.steps,
            "intervals": "clustered by document",
        },
        seeds={
            "router_documents": seeds.ROUTER_DOCUMENTS.seed(QUICKSTART_RUN),
            "evaluation": seeds.EVALUATION.seed(QUICKSTART_RUN),
        },
        counts={
            "documents": outcome.documents,
            "answers": outcome.answers,
            "training_documents": outcome.training_documents,
            "labelled_questions": outcome.labelled_questions,
        },
        metrics=metrics,
    )


def quickstart_table(results: Results) -> Table:
    """Policies down, budgets across."""
    run = results.run()
    budgets = results.coordinates("budget")
    rows = [
        (
            policy,
            *(with_interval(results.metric("preserved", policy=policy, budget=budget)) for budget in budgets),
            *(f"{results.value('facts_kept', policy=policy, budget=budget):.2f}" for budget in budgets),
            cost(results, policy, budgets[0]),
        )
        for policy in results.coordinates("policy")
    ]
    return Table(
        name=NAME,
        caption=(
            f"What `keepset quickstart` prints: documents of {run.config['tokens']:,} tokens with four facts, pruned "
            "line by line before any question; share of the answers that survive, of those the model gives from the "
            "whole document; and what choosing the lines took, in dense prefills. The last row is handed the lines of "
            "the facts."
        ),
        columns=(
            "Policy",
            *(f"{budget:.0%} of the lines" for budget in budgets),
            *(f"facts kept, {budget:.0%}" for budget in budgets),
            "cost",
        ),
        rows=tuple(rows),
        notes=(
            f"{run.counts['answers']} answers about {run.counts['documents']} documents. Square brackets: 95 % "
            f"interval, {run.config.get('intervals', 'over answers as if each were of another document')}. -: not "
            "measured. Routers learned from "
            f"{run.counts['labelled_questions']} questions about {run.counts['training_documents']} other documents.",
        ),
    )


def cost(results: Results, policy: Coordinate, budget: Coordinate) -> str:
    """Dense prefills that choosing took."""
    found = results.select("prefills", policy=policy, budget=budget)
    return "-" if found.empty else f"{found['value'].item():.2f}"


EXPERIMENT = Experiment(
    NAME, place=80, jobs=jobs, reports=(Report("The quickstart's table", "eviction", quickstart_table, beyond=True),)
)

"""How many documents does a router need? Evidence kept by routers trained on more and more of them, on new documents.

Query-aware routers have to learn which key is asked for, which pre-query ones do not: they need more documents.
"""

import time
from collections.abc import Iterable
from functools import partial

from keepset import seeds
from keepset.paper.bench.models import loaded
from keepset.paper.eviction.columns import CONDITIONS, percent
from keepset.paper.eviction.documents import EVALUATION_RUN
from keepset.paper.eviction.paper_numbers import MAIN_BUDGET
from keepset.paper.eviction.routers import (
    CHOOSING_RUN,
    REGIMES,
    TASKS,
    TRAINING_RUN,
    Examples,
    evidence_kept,
    router_documents,
    router_examples,
    train_arm,
)
from keepset.paper.eviction.run import SETTINGS, Setting
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.routers.block import Regime
from keepset.text.long_context import document_seed, sample_documents

NAME = "eviction_curve"
DOCUMENTS = {"smoke": (1, 2), "small": (12, 48, 192), "paper": (60, 250, 1_000)}
"""Per task, to learn from."""
EVALUATED = {"smoke": 2, "small": 32, "paper": 60}
"""Per task, at twice the training length."""


def jobs(scale: str) -> Jobs:
    """One result per model and regime; only the first layers of the model run."""
    return {
        f"{NAME}/{setting.short_name}-{regime}": partial(run, scale, setting, regime)
        for setting in SETTINGS[scale]
        for regime in REGIMES
    }


def run(scale: str, setting: Setting, regime: Regime) -> RunResult:
    """Routers on the first documents of one list, steps chosen as everywhere, the causal target alone."""
    started = time.monotonic()
    model, tokenizer = loaded(setting.model, setting.quantize)
    lessons = setting.lessons
    learning = by_task(
        router_examples(
            model, tokenizer, router_documents(tokenizer, max(DOCUMENTS[scale]), lessons.length), regime, ("causal",)
        )
    )
    choosing = router_examples(
        model,
        tokenizer,
        router_documents(tokenizer, lessons.choosing, lessons.length, CHOOSING_RUN),
        regime,
        ("causal",),
    )
    evaluated = {}
    for task in TASKS:
        seed = document_seed(seeds.EVALUATION, EVALUATION_RUN, task, 2 * lessons.length)
        documents = sample_documents(task, tokenizer, seed, 2 * lessons.length, EVALUATED[scale])
        evaluated[task] = router_examples(model, tokenizer, documents, regime, ("causal",))
    metrics: list[Metric] = []
    for n in DOCUMENTS[scale]:
        some = joined(beginning(task, n) for task in learning)
        tried = {steps: train_arm(model, regime, some, "causal", [0], steps)[0] for steps in lessons.steps}
        router = max(tried.items(), key=lambda pair: (evidence_kept(pair[1], choosing), -pair[0]))[1]
        metrics += [
            share("evidence_kept", evidence_kept(router, examples), len(examples.features), task=task, documents=n)
            for task, examples in evaluated.items()
        ]
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.short_name, "regime": regime},
        config={
            "model": setting.model,
            "quantize": setting.quantize,
            "blocks": "line",
            "budget": MAIN_BUDGET,
            "length": 2 * lessons.length,
            "train_length": lessons.length,
            "steps_tried": list(lessons.steps),
            "choosing_documents": lessons.choosing,
        },
        seeds={"router_documents": seeds.ROUTER_DOCUMENTS.seed(TRAINING_RUN)},
        counts={"documents": EVALUATED[scale]},
        metrics=metrics,
    )


def by_task(examples: Examples) -> list[Examples]:
    """In the order of ``TASKS``, as many documents each."""
    per_task = len(examples.features) // len(TASKS)
    return [
        Examples(
            examples.features[start : start + per_task],
            {target: rows[start : start + per_task] for target, rows in examples.targets.items()},
        )
        for start in range(0, len(examples.features), per_task)
    ]


def beginning(examples: Examples, n: int) -> Examples:
    return Examples(examples.features[:n], {target: rows[:n] for target, rows in examples.targets.items()})


def joined(parts: Iterable[Examples]) -> Examples:
    found = list(parts)
    targets = {target: [row for part in found for row in part.targets[target]] for target in found[0].targets}
    return Examples([features for part in found for features in part.features], targets)


def curve_table(results: Results) -> Table:
    """Documents down, tasks across."""
    rows: list[tuple[str, ...]] = []
    for run in results.runs.values():
        rows.append(())
        for n in dict.fromkeys(metric.at["documents"] for metric in run.metrics):
            cells = [with_interval(results.metric("evidence_kept", **run.at, task=t, documents=n)) for t in TASKS]
            rows.append((str(run.at["model"]), str(run.at["regime"]), str(n), *cells))
    first_run = results.run()
    return Table(
        name="eviction-curve",
        caption=(
            f"Causal routers trained on more and more documents of {first_run.config['train_length']} tokens: share of "
            f"new documents of {first_run.config['length']:,} tokens all of whose evidence is among the best "
            f"{percent(first_run.config['budget'])} of the lines; query-aware the evidence of the question asked."
        ),
        columns=("Model", "Regime", "Documents per task", *(CONDITIONS[task] for task in TASKS)),
        rows=tuple(rows[1:]),
        notes=(
            f"n = {first_run.counts['documents']} documents a cell. Square brackets: 95 % Wilson interval.",
            "Before the question every line that could be asked for is evidence: of a register log of this length more "
            "than the budget holds (eviction-dense, fits 10 %), so that nobody keeps it all.",
        ),
    )


EXPERIMENT = Experiment(
    NAME,
    place=71,
    jobs=jobs,
    reports=(Report("How many documents a router needs", "eviction", curve_table, beyond=True),),
)

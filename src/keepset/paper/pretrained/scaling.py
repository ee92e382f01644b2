"""Labels without annotations as the record count grows: necessity alone. Gives ``tab:scaling``.

    record_scaling/<model>/recovered-<records>-<part>     hide every record once: agreement, forwards, tokens, seconds;
                                                          the effort ``certified`` beside ``exact``
    record_scaling/<model>/routed-<records>-<task>        a router that learned from the recovered labels

A lesson's label is the record whose hiding costs the gold answer most. Where the model does not solve the lesson, that
is still a label; agreement is told of all and of the solved ones.
"""

import time
from collections.abc import Sequence
from functools import partial

from torch import Tensor

from keepset.files import write_json
from keepset.interventions import Effects
from keepset.labels import top_k
from keepset.paper.claim import Claim
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.pretrained.examples import SINGLE, TITLES, Task, draw, task_seed
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import (
    RECOVERED,
    annotated,
    effects_of,
    label_path,
    labelled,
    mixed_lessons,
    vocabulary,
)
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, models, paper_rows, pooled_share
from keepset.paper.pretrained.readings import best
from keepset.paper.pretrained.routers import router_tokens, score_records, train_record_routers
from keepset.paper.pretrained.settings import BUDGET, SETTINGS, Setting, parts
from keepset.paper.pretrained.written import bar_claim, config, counted, record_result
from keepset.paper.result import At, Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.testbed.tasks.records import RecordExample

NAME = "record_scaling"
EFFORTS = ("exact", "certified")
AGREES = 0.99


def jobs(scale: str) -> Jobs:
    """Per model and record count: labels part by part, then what a router makes of them."""
    found: Jobs = {}
    for setting in SETTINGS[scale]:
        for records, lessons in setting.scaled:
            folder = f"{NAME}/{setting.name}"
            for part, numbers in parts(lessons, setting.part):
                found[f"{folder}/recovered-{records}-{part}"] = partial(
                    run_recovery, scale, setting, records, part, numbers
                )
            for task in SINGLE:
                found[f"{folder}/routed-{records}-{task}"] = partial(run_routed, scale, setting, records, lessons, task)
    return found


def source(records: int) -> str:
    """Where the labels of lessons of so many records are kept."""
    return f"mixed-{records}"


def run_recovery(scale: str, setting: Setting, records: int, part: int, numbers: range) -> RunResult:
    """One part of the lessons, by both efforts; the exact drops are kept for the router."""
    started = time.monotonic()
    lessons = mixed_lessons(setting, records, numbers)
    metrics: list[Metric | None] = []
    for effort in EFFORTS:
        begun = time.monotonic()
        effects = effects_of(setting, lessons, "exact" if effort == "exact" else "certified")
        drop = effects.drop
        metrics += recovery_metrics(effects, lessons, effort, time.monotonic() - begun)
        if effort == "exact":
            write_json(label_path(scale, setting, source(records), RECOVERED, numbers), drop.tolist())
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.name, "task": "mixed", "records": records, "part": part, "kind": "recovered"},
        config=config(setting),
        seeds={f"lessons, {task}": task_seed(task, records, learning=True) for task in SINGLE},
        counts={"lessons": len(lessons)},
        metrics=counted(metrics),
    )


def recovery_metrics(
    effects: Effects, lessons: Sequence[RecordExample], effort: str, seconds: float
) -> list[Metric | None]:
    """Agreement with the annotation, and what it cost."""
    agrees = (necessary(effects.drop) == annotated(lessons)[:, 0]).all(-1).tolist()
    solved: list[Outcome] = [a if s else None for a, s in zip(agrees, effects.clean_correct.tolist(), strict=True)]
    cost, n = effects.probe.executor.cost, len(lessons)
    costs = {"views": float(cost.views), "tokens": float(cost.tokens), "seconds": seconds}
    return [
        share_of("agrees", agrees, effort=effort, among="all"),
        share_of("agrees", solved, effort=effort, among="solved"),
        *(Metric(what=what, at={"effort": effort}, value=value, n=n) for what, value in costs.items()),
    ]


def necessary(drop: Tensor) -> Tensor:
    """(B, N) bool: the one record whose hiding costs most."""
    return top_k(drop, 1)


def run_routed(scale: str, setting: Setting, records: int, lessons: int, task: Task) -> RunResult:
    """The recovered-label router at the record count it learned at."""
    started = time.monotonic()
    every = mixed_lessons(setting, records, range(lessons))
    drop = labelled(scale, setting, source(records), RECOVERED, lambda n: mixed_lessons(setting, records, n), lessons)
    targets = {"recovered": necessary(drop).unsqueeze(1), "annotated": annotated(every)}
    routers = train_record_routers("span", vocabulary(setting), router_tokens(every), targets, setting.least_steps)
    examples = draw(setting, task, records, range(setting.judged))
    scores = {arm: score_records(router, examples) for arm, router in routers.items()}
    probe = choosing(setting, examples)
    judged = judge(probe, lambda i, solved: {arm: best(rows[i], BUDGET) for arm, rows in scores.items()})
    metrics = [share_of("dense", judged.dense), *(judged.share("routed", arm, arm=arm, k=BUDGET) for arm in targets)]
    counts = {"examples": len(examples), "lessons": lessons}
    return record_result(NAME, scale, started, setting, task, records, metrics, counts, kind="routed")


PAPER = """
Qwen2.5-3B | 16 | 2,000 | 1.000 | - | - | 0.99 | 0.99 | 34,000 | - | - | 17 | -
Qwen2.5-3B | 32 | 1,500 | 1.000 | - | - | 1.00 | 0.99 | 49,500 | - | - | 37 | -
Qwen2.5-3B | 64 | 1,000 | 1.000 | - | - | 0.99 | 0.98 | 65,000 | - | - | 43 | -
Qwen2.5-3B | 128 | 600 | 1.000 | - | - | 0.96 | 0.96 | 77,400 | - | - | 150 | -
"""


def total(results: Results, what: str, **at: Coordinate) -> float:
    """Of all parts."""
    return sum(results.values(what, **at))


def scaling_table(results: Results) -> Table:
    """``tab:scaling``."""
    rows = []
    for model in models(results):
        for records in sorted(results.coordinates("records")):
            at: At = {"model": model, "records": records}
            everybody = pooled_share(results, "agrees", effort="exact", among="all", **at)
            if everybody is None:
                continue
            rows.append(
                (
                    model,
                    str(records),
                    f"{everybody.n:,}",
                    cell(results, "agrees", effort="exact", among="all", **at),
                    cell(results, "agrees", effort="exact", among="solved", **at),
                    cell(results, "agrees", effort="certified", among="solved", **at),
                    *(cell(results, "routed", arm="recovered", task=task, **at) for task in SINGLE),
                    f"{total(results, 'views', effort='exact', **at):,.0f}",
                    *(f"{total(results, 'tokens', effort=effort, **at):,.0f}" for effort in EFFORTS),
                    *(f"{total(results, 'seconds', effort=effort, **at) / 60:.1f}" for effort in EFFORTS),
                )
            )
    return Table(
        name="tab-scaling",
        caption=(
            "Labels without annotations as the record count grows: the record whose hiding costs the answer most "
            "against the annotation, of all lessons and of those the model solves; a router that learned from these "
            "labels, at two records; and what labelling costs by the efforts exact and certified."
        ),
        columns=(
            "Model",
            "Records",
            "Lessons",
            "Agree",
            "Agree, solved",
            "Agree, solved, certified",
            *(f"{TITLES[task].capitalize()} route" for task in SINGLE),
            "Keep sets",
            "Tokens, exact",
            "Tokens, certified",
            "Minutes, exact",
            "Minutes, certified",
        ),
        rows=(*rows, *paper_rows(PAPER)),
        notes=(
            INTERVAL_NOTE,
            "The paper runs a forward per keep set (its column Forwards); here keep sets of an example share what is "
            "common, so tokens that went through the model are told too.",
        ),
    )


def scaling_claims(results: Results) -> list[Claim]:
    """Recovery agrees where the model solves the task."""
    claims = []
    for model in models(results):
        for records in sorted(results.coordinates("records")):
            metric = pooled_share(results, "agrees", effort="exact", among="solved", model=model, records=records)
            if metric:
                text = f"Labels recovered at {records} records agree where solved ({model}): at least {AGREES}"
                claims.append(bar_claim(text, "1.000", metric, AGREES, "lessons"))
    return claims


EXPERIMENT = Experiment(
    NAME,
    place=59,
    jobs=jobs,
    reports=(Report("tab:scaling", "pretrained", scaling_table),),
    claims=scaling_claims,
)

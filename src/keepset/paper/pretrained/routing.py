"""Record routers at a budget, with the first-token sink kept and removed. Gives ``tab:sink`` and ``tab:budget-sink``.

    record_routing/<model>/<task>-<records>-<part>      every arm, at one, two and four of 16 records; at two of 32

Routers learn from contexts of 16 records; 32 are twice what they have seen.
"""

import time
from functools import partial
from operator import attrgetter

from torch import Tensor

from keepset.blocks import KeepSet
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import Choice, Experiment, Jobs, Report
from keepset.paper.pretrained.examples import SINGLE, Task, draw
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import ARMS, NO_SINK, trained
from keepset.paper.pretrained.pool import part_jobs
from keepset.paper.pretrained.readings import NOBODY, SINK, best, chance
from keepset.paper.pretrained.routers import WORDS, score_records, shared_words, training_steps
from keepset.paper.pretrained.routing_claims import RANDOM, routing_claims
from keepset.paper.pretrained.routing_tables import budget_table, sink_table
from keepset.paper.pretrained.settings import BUDGET, BUDGETS, RECORDS, Setting, frozen
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.testbed.tasks.records import RecordExample

NAME = "record_routing"
LENGTHS = {RECORDS: BUDGETS, 2 * RECORDS: (BUDGET,)}
"""Records of a context -> budgets."""

Ask = tuple[str, int]
"""Arm and budget."""


def jobs(scale: str) -> Jobs:
    """One result per model, task, length and part."""
    return part_jobs(
        scale,
        NAME,
        {
            f"{task}-{records}": (attrgetter("judged"), partial(run, scale, task, records))
            for records in LENGTHS
            for task in SINGLE
        },
    )


def run(scale: str, task: Task, records: int, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part, every arm."""
    started = time.monotonic()
    routers = trained(scale, setting, setting.lessons)
    examples = draw(setting, task, records, numbers)
    scores = {arm: score_records(router, examples) for arm, router in routers.items()}
    scores[WORDS] = shared_words(frozen(setting)[1], examples)
    kept = [selections({arm: rows[i] for arm, rows in scores.items()}, records, n) for i, n in enumerate(numbers)]
    judged = judge(choosing(setting, examples), lambda i, solved: kept[i])
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    for arm, k in kept[0]:
        metrics.append(judged.share("routed", (arm, k), arm=arm, k=k))
        metrics.append(share_of("recall", recalls(examples, [row[arm, k] for row in kept]), arm=arm, k=k))
    return record_result(
        NAME,
        scale,
        started,
        setting,
        task,
        records,
        metrics,
        {"examples": len(examples), "lessons": setting.lessons},
        {"router": "span", "train_records": RECORDS, "steps": training_steps(setting.lessons, setting.least_steps)},
        part=part,
    )


def selections(scores: dict[str, Tensor], records: int, number: int) -> dict[Ask, KeepSet]:
    """What every arm keeps of one example at every budget; the arms without the sink never keep record 0."""
    barred = {ARMS[supervision, sink]: SINK if sink == NO_SINK else NOBODY for supervision, sink in ARMS}
    every = {**scores, RANDOM: chance(records, number)}
    return {(arm, k): best(row, k, barred.get(arm, NOBODY)) for arm, row in every.items() for k in LENGTHS[records]}


def recalls(examples: list[RecordExample], kept: list[KeepSet]) -> list[bool | None]:
    """Is the record the answer rests on among those kept?"""
    return [example.evidence <= keep for example, keep in zip(examples, kept, strict=True)]


EXPERIMENT = Experiment(
    NAME,
    place=57,
    jobs=jobs,
    reports=(
        Report("tab:sink", "pretrained", sink_table),
        Report("tab:budget-sink", "pretrained", budget_table),
    ),
    claims=routing_claims,
    choices=(
        Choice(
            "What record routers learn from",
            "unique retrieval and conflicting facts in turn, 16 records, one router for both tasks",
        ),
        Choice(
            "How long record routers learn",
            "15 epochs, and from fewer than 2,000 lessons as many steps as 15 epochs over 2,000 have (batch of 64, not "
            "said in the paper)",
        ),
        Choice(
            "The cosine feature of record routers",
            "relative to the mean cosine of the context's records, times ten: records share most of their words",
        ),
    ),
)

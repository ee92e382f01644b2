"""Does the operator matter? The same keep sets, masked and overwritten with nonce records. Gives ``tab:overwrite``.

    record_overwrite/<model>/<task>-<part>      routers, the current record alone, current or random record removed

Overwriting puts a record of equal length with a fresh name and code where one is removed; three such fillers, and the
figures are their mean.
"""

import time
from dataclasses import replace
from functools import partial
from operator import attrgetter

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Mask, Operator, Overwrite
from keepset.paper.claim import Claim, every_claim, told
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.examples import SINGLE, TITLES, Task, draw, plain
from keepset.paper.pretrained.judge import Judged, choosing, judge
from keepset.paper.pretrained.lessons import CAUSAL, IMITATION, arm_name, trained
from keepset.paper.pretrained.pool import INTERVAL_NOTE, NOT_RUN, grouped, models, paper_rows, part_jobs
from keepset.paper.pretrained.readings import best, chance
from keepset.paper.pretrained.routers import score_records
from keepset.paper.pretrained.settings import BUDGET, RECORDS, RUN, Setting, frozen
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.paper.testbed.tasks.records import nonce_records

NAME = "record_overwrite"
FILLERS = 3
REPAIRED = 0.9
"""Accuracy from the current record alone that counts as repaired."""
MASK, OVERWRITE = "mask", "overwrite"
ROUTED, REPAIR, CURRENT, RANDOM = (CAUSAL, IMITATION), "repair", "current", "random"


def jobs(scale: str) -> Jobs:
    """One result per model, task and part."""
    return part_jobs(scale, NAME, {task: (attrgetter("overwritten"), partial(run, scale, task)) for task in SINGLE})


def operators(setting: Setting) -> dict[tuple[str, int], Operator]:
    """Name and number of the filler -> how records are removed."""
    tokenizer = plain(frozen(setting)[1])
    found: dict[tuple[str, int], Operator] = {(MASK, 0): Mask()}
    for filler in range(FILLERS):
        nonces = nonce_records(tokenizer, seeds.INTERVENTION.seed(RUN, filler), alternatives=1)
        found[OVERWRITE, filler] = Overwrite(nonces)
    return found


def run(scale: str, task: Task, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part under every operator; what is kept is the same."""
    started = time.monotonic()
    examples = draw(setting, task, RECORDS, numbers)
    routers = trained(scale, setting, setting.lessons)
    scores = {name: score_records(routers[arm_name(name, "kept")], examples) for name in ROUTED}
    everything = frozenset(range(RECORDS))

    def asked(i: int, solved: bool) -> dict[str, KeepSet]:
        current = examples[i].evidence
        (other,) = best(chance(RECORDS, numbers[i]), 1, barred=current)
        keeps = {name: best(rows[i], BUDGET) for name, rows in scores.items()} | {REPAIR: current}
        removed = {CURRENT: everything - current, RANDOM: everything - {other}}
        return keeps | removed if solved else keeps

    metrics: list[Metric | None] = []
    for (operator, filler), removing in operators(setting).items():
        judged = judge(choosing(setting, examples, removing), asked)
        metrics += operator_metrics(judged, operator, filler)
    counts = {"examples": len(examples), "lessons": setting.lessons}
    return record_result(NAME, scale, started, setting, task, RECORDS, metrics, counts, {"router": "span"}, part=part)


def operator_metrics(judged: Judged[str], operator: str, filler: int) -> list[Metric | None]:
    """Accuracy of what is kept, over all examples; flips, over the solved ones."""
    at: At = {"operator": operator, "filler": filler}
    return [
        share_of("dense", judged.dense, **at) if operator == MASK else None,
        *(judged.share("kept", name, keep=name, **at) for name in (*ROUTED, REPAIR)),
        *(judged.lost("flip", name, removed=name, **at) for name in (CURRENT, RANDOM)),
    ]


PAPER = """
Qwen2.5-3B | unique | mask | 150 | 0.99 | 0.45 | - | 0.75 | 0.00
Qwen2.5-3B | unique | overwrite | 150 | 1.00 | 0.47 | - | 0.75 | 0.00
Qwen2.5-3B | conflicting | mask | 150 | 0.99 | 0.75 | 1.00 | 1.00 | 0.00
Qwen2.5-3B | conflicting | overwrite | 150 | 1.00 | 0.75 | 1.00 | 1.00 | 0.00
Gemma-2-9B | unique | mask | 150 | 1.00 | 0.91 | - | 0.80 | 0.00
Gemma-2-9B | unique | overwrite | 150 | 1.00 | 0.90 | - | 0.77 | 0.00
Gemma-2-9B | conflicting | mask | 150 | 0.99 | 0.95 | 1.00 | 1.00 | 0.04
Gemma-2-9B | conflicting | overwrite | 150 | 0.73 | 0.71 | 1.00 | 1.00 | 0.08
Yi-1.5-9B | unique | mask | 150 | 1.00 | 0.61 | - | 0.80 | 0.00
Yi-1.5-9B | unique | overwrite | 150 | 1.00 | 0.64 | - | 0.80 | 0.00
Yi-1.5-9B | conflicting | mask | 150 | 0.95 | 0.83 | 1.00 | 1.00 | 0.00
Yi-1.5-9B | conflicting | overwrite | 150 | 0.94 | 0.83 | 1.00 | 1.00 | 0.00
"""


def mean_share(results: Results, what: str, operator: str, **at: str) -> Metric | None:
    """The mean over fillers. Fillers share their examples, so the interval is that of one filler's examples."""
    found = results.select(what, operator=operator, **at)
    if found.empty:
        return None
    fillers = FILLERS if operator == OVERWRITE else 1
    right = sum(value * n for value, n in zip(found["value"], found["n"], strict=True))
    n = int(found["n"].sum()) // fillers
    metric = share(what, min(n, round(right / fillers)), n)
    return metric.model_copy(update={"value": right / int(found["n"].sum())})


def overwrite_table(results: Results) -> Table:
    """``tab:overwrite``."""
    groups = []
    for model in models(results):
        for task in SINGLE:
            rows = []
            for operator in (MASK, OVERWRITE):
                at = {"model": model, "task": task}
                kept = [mean_share(results, "kept", operator, keep=name, **at) for name in (*ROUTED, REPAIR)]
                flips = [mean_share(results, "flip", operator, removed=name, **at) for name in (CURRENT, RANDOM)]
                if kept[0]:
                    cells = [with_interval(metric) if metric else NOT_RUN for metric in (*kept, *flips)]
                    rows.append((model, TITLES[task], operator, str(kept[0].n), *cells))
            groups.append(rows)
    return Table(
        name="tab-overwrite",
        caption=(
            "Two operators on the same keep sets, 16 records: causal and attention-imitation routers at two records, "
            "the annotated record alone (repair), and how often removing the current or a random record changes a "
            "right answer. Overwriting: mean of three nonce fillers."
        ),
        columns=(
            "Model",
            "Task",
            "Operator",
            "n",
            "Causal",
            "Imitation",
            "Repair",
            "Flip (current)",
            "Flip (random)",
        ),
        rows=(*grouped(groups), *paper_rows(PAPER)),
        notes=(INTERVAL_NOTE, "Flips are of solved examples. Imitation keeps the sink, as in the paper."),
    )


def overwrite_claims(results: Results) -> list[Claim]:
    """What the current record alone answers, it answers under either operator."""
    claims = []
    for model in models(results):
        at = {"model": model, "task": "conflicting"}
        found = [mean_share(results, "kept", operator, keep=REPAIR, **at) for operator in (MASK, OVERWRITE)]
        there = [metric for metric in found if metric]
        if len(there) == len(found):
            text = f"Conflicting facts ({model}): the current record alone gives {REPAIRED}, masked or overwritten"
            judged = every_claim(text, "1.00, 1.00", there, REPAIRED, f"{there[0].n} examples")
            claims.append(replace(judged, verdict=told(judged.verdict, there[0].n)))
    return claims


EXPERIMENT = Experiment(
    NAME,
    place=61,
    jobs=jobs,
    reports=(Report("tab:overwrite", "pretrained", overwrite_table),),
    claims=overwrite_claims,
)

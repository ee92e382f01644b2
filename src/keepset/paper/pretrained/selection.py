"""Training-free statistics as oracles: the records with the most attention alone. Gives ``tab:eviction``.

record_statistics/<model>/<task>-<part>      accumulated, window and random selections of one, two and four records
"""

import time
from functools import partial
from operator import attrgetter

from keepset.blocks import KeepSet
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.examples import SINGLE, TITLES, Task, draw
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, paper_rows, part_jobs
from keepset.paper.pretrained.readings import ACCUMULATED, WINDOW, best, chance, read
from keepset.paper.pretrained.settings import BUDGETS, RECORDS, Setting, frozen
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import At, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table

NAME = "record_statistics"
STATISTICS = (ACCUMULATED, WINDOW, "random")


def jobs(scale: str) -> Jobs:
    """One result per model, task and part."""
    return part_jobs(scale, NAME, {task: (attrgetter("judged"), partial(run, scale, task)) for task in SINGLE})


def run(scale: str, task: Task, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part."""
    started = time.monotonic()
    model, _ = frozen(setting)
    examples = draw(setting, task, RECORDS, numbers)
    scores = [read(model, example, (ACCUMULATED, WINDOW)) for example in examples]

    def asked(i: int, solved: bool) -> dict[tuple[str, int], KeepSet]:
        every = scores[i] | {"random": chance(RECORDS, numbers[i])}
        return {(name, k): best(every[name], k) for name in STATISTICS for k in BUDGETS}

    judged = judge(choosing(setting, examples), asked)
    metrics = [judged.share("routed", (name, k), statistic=name, k=k) for name in STATISTICS for k in BUDGETS]
    return record_result(
        NAME,
        scale,
        started,
        setting,
        task,
        RECORDS,
        [share_of("dense", judged.dense), *metrics],
        {"examples": len(examples)},
        part=part,
    )


PAPER = """
Qwen2.5-3B | unique | 1 | 150 | 1.00 | 0.29 | 0.29 | 0.31
Qwen2.5-3B | unique | 2 | 150 | 1.00 | 0.31 | 0.39 | 0.34
Qwen2.5-3B | unique | 4 | 150 | 1.00 | 0.41 | 0.66 | 0.43
Qwen2.5-3B | conflicting | 1 | 150 | 0.99 | 0.19 | 0.19 | 0.27
Qwen2.5-3B | conflicting | 2 | 150 | 0.99 | 0.17 | 0.27 | 0.25
Qwen2.5-3B | conflicting | 4 | 150 | 0.99 | 0.05 | 0.85 | 0.33
Qwen2.5-7B | unique | 1 | 150 | 1.00 | 0.29 | 0.29 | 0.31
Qwen2.5-7B | unique | 2 | 150 | 1.00 | 0.35 | 0.45 | 0.32
Qwen2.5-7B | unique | 4 | 150 | 1.00 | 0.44 | 0.87 | 0.41
Qwen2.5-7B | conflicting | 1 | 150 | 0.98 | 0.19 | 0.19 | 0.25
Qwen2.5-7B | conflicting | 2 | 150 | 0.98 | 0.17 | 0.51 | 0.27
Qwen2.5-7B | conflicting | 4 | 150 | 0.98 | 0.08 | 0.97 | 0.39
Yi-1.5-9B | unique | 1 | 150 | 1.00 | 0.25 | 0.25 | 0.34
Yi-1.5-9B | unique | 2 | 150 | 1.00 | 0.28 | 0.40 | 0.31
Yi-1.5-9B | unique | 4 | 150 | 1.00 | 0.43 | 0.87 | 0.45
Yi-1.5-9B | conflicting | 1 | 150 | 1.00 | 0.18 | 0.18 | 0.25
Yi-1.5-9B | conflicting | 2 | 150 | 1.00 | 0.15 | 0.45 | 0.27
Yi-1.5-9B | conflicting | 4 | 150 | 1.00 | 0.05 | 0.75 | 0.33
"""


def statistics_table(results: Results) -> Table:
    """``tab:eviction``."""
    groups = []
    for model in models(results):
        rows = []
        for task in SINGLE:
            at: At = {"model": model, "task": task}
            if count(results, "dense", **at) == "0":
                continue
            for k in BUDGETS:
                cells = [cell(results, "routed", statistic=name, k=k, **at) for name in STATISTICS]
                head = (model, TITLES[task], str(k), count(results, "dense", **at), cell(results, "dense", **at))
                rows.append((*head, *cells))
        groups.append(rows)
    return Table(
        name="tab-eviction",
        caption=(
            "Training-free statistics as oracles, 16 records: accuracy when only the k records with the most "
            "attention stay, summed over every row and layer (accumulated) or over the rows of the question (window)."
        ),
        columns=("Model", "Task", "k", "n", "Dense", "Accumulated", "Window", "Random"),
        rows=(*grouped(groups), *paper_rows(PAPER)),
        notes=(INTERVAL_NOTE,),
    )


EXPERIMENT = Experiment(NAME, place=56, jobs=jobs, reports=(Report("tab:eviction", "pretrained", statistics_table),))

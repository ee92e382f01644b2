"""The sink absorbed by a sentence before the records instead of barred. Gives ``tab:prefix``.

sink_prefix/<model>/prefix<p>-<part>      unique retrieval; p = 0 is no sentence, through the same code
"""

import time
from functools import partial
from operator import attrgetter

from keepset.blocks import KeepSet
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.audit import PREFIXES
from keepset.paper.pretrained.examples import Task, draw
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import CAUSAL, IMITATION, MIXED, arm_name, labelled, mixed_lessons, trained
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, paper_rows, part_jobs
from keepset.paper.pretrained.readings import ATTENTION, best
from keepset.paper.pretrained.routers import score_records
from keepset.paper.pretrained.settings import BUDGETS, RECORDS, Setting
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table

NAME = "sink_prefix"
TASK: Task = "unique"
SENTENCES = ("", *PREFIXES)
SUPERVISIONS = (IMITATION, CAUSAL)
SINK_LESSONS = 600
"""The paper's, of which the sink's share is counted."""


def jobs(scale: str) -> Jobs:
    """One result per model, sentence and part; models whose routers learn with sentences."""
    size = attrgetter("judged")
    return part_jobs(
        scale,
        NAME,
        {
            f"prefix{p}": (lambda setting: size(setting) if setting.absorbed else 0, partial(run, scale, p))
            for p in range(len(SENTENCES))
        },
    )


def run(scale: str, prefix: int, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part with one sentence."""
    started = time.monotonic()
    before, of = SENTENCES[prefix], f"prefix{prefix}" if prefix else MIXED  # no sentence: the other tables' lessons
    routers = trained(scale, setting, setting.absorbed, before, of)
    examples = draw(setting, TASK, RECORDS, numbers, before)
    scores = {name: score_records(routers[arm_name(name, "kept")], examples) for name in SUPERVISIONS}

    def asked(i: int, solved: bool) -> dict[tuple[str, int], KeepSet]:
        return {(name, k): best(rows[i], k) for name, rows in scores.items() for k in BUDGETS}

    judged = judge(choosing(setting, examples), asked)
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    metrics += [judged.share("routed", (name, k), supervision=name, k=k) for name in SUPERVISIONS for k in BUDGETS]
    if part == 0:  # of the lessons, which all parts share
        attention = labelled(
            scale, setting, of, ATTENTION, lambda n: mixed_lessons(setting, RECORDS, n, before), setting.absorbed
        )
        metrics.append(share_of("sink", (attention[:SINK_LESSONS].argmax(-1) == 0).tolist()))
    counts = {"examples": len(examples), "lessons": setting.absorbed}
    return record_result(
        NAME, scale, started, setting, TASK, RECORDS, metrics, counts, {"before": before}, prefix=prefix, part=part
    )


PAPER = """
Qwen2.5-3B | none | 150 | | 1.00 | 0.29 | 0.45 | 0.90 | 0.99 | 0.99 | 1.00
Qwen2.5-3B | 1 | 150 | | 0.36 | 0.45 | 0.89 | 0.98 | 1.00 | 1.00 | 1.00
Qwen2.5-3B | 2 | 150 | | 0.33 | 0.39 | 0.70 | 0.93 | 1.00 | 1.00 | 1.00
Qwen2.5-3B | 3 | 150 | | 0.39 | 0.33 | 0.43 | 0.81 | 1.00 | 1.00 | 1.00
Qwen2.5-7B | none | 150 | | 1.00 | 0.29 | 0.69 | 0.99 | 0.99 | 0.99 | 1.00
Qwen2.5-7B | 1 | 150 | | 0.51 | 0.33 | 0.55 | 0.83 | 1.00 | 1.00 | 1.00
Qwen2.5-7B | 2 | 150 | | 0.44 | 0.37 | 0.54 | 0.91 | 1.00 | 1.00 | 1.00
Qwen2.5-7B | 3 | 150 | | 0.39 | 0.43 | 0.56 | 0.86 | 1.00 | 1.00 | 1.00
Yi-1.5-9B | none | 150 | | 1.00 | 0.25 | 0.61 | 0.99 | 1.00 | 1.00 | 1.00
Yi-1.5-9B | 1 | 150 | | 0.42 | 0.31 | 0.77 | 0.99 | 1.00 | 1.00 | 1.00
Yi-1.5-9B | 2 | 150 | | 0.07 | 0.55 | 0.81 | 0.99 | 1.00 | 1.00 | 1.00
Yi-1.5-9B | 3 | 150 | | 0.29 | 0.39 | 0.65 | 0.99 | 1.00 | 1.00 | 1.00
"""


def prefix_table(results: Results) -> Table:
    """``tab:prefix``."""
    groups = []
    for model in models(results):
        rows = []
        for prefix in range(len(SENTENCES)):
            at: At = {"model": model, "prefix": prefix}
            if count(results, "dense", **at) == "0":
                continue
            cells = [cell(results, "routed", supervision=name, k=k, **at) for name in SUPERVISIONS for k in BUDGETS]
            head = (model, str(prefix) if prefix else "none", count(results, "dense", **at))
            rows.append((*head, cell(results, "dense", **at), cell(results, "sink", **at), *cells))
        groups.append(rows)
    lessons = {str(run.at["model"]): run.counts["lessons"] for run in results.runs.values()}
    learned = ", ".join(f"{model} {n:,}" for model, n in lessons.items())
    return Table(
        name="tab-prefix",
        caption=(
            "The sink absorbed by a sentence before the records that is none, unique retrieval, 16 records. Sink: how "
            "often record 0 has the most attention of all records, over the lessons."
        ),
        columns=(
            "Model",
            "Prefix",
            "n",
            "Dense",
            "Sink",
            *(f"{name.capitalize()}, k = {k}" for name in SUPERVISIONS for k in BUDGETS),
        ),
        rows=(*grouped(groups), *paper_rows(PAPER)),
        notes=(INTERVAL_NOTE, f"Routers learned from {learned} lessons (the paper: 2,000)."),
    )


EXPERIMENT = Experiment(NAME, place=58, jobs=jobs, reports=(Report("tab:prefix", "pretrained", prefix_table),))

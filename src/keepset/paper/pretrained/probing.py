"""Does the answer depend on the record it should, and does attention know? No training, one pass per example.

Gives ``tab:pretrained``, ``tab:app-pretrained-unique``, ``fig:pretrained`` and ``tab:trace-pretrained``:

    pretrained/<model>/<task>-<part>      dense; current or random record hidden; current record alone; readouts

What is hidden is asked of solved examples only, where there is an answer to lose.
"""

import time
from functools import partial

from torch import Tensor

from keepset.blocks import KeepSet
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Choice, Difference, Experiment, Jobs, Report
from keepset.paper.pretrained import margins
from keepset.paper.pretrained.examples import SINGLE, Task, draw
from keepset.paper.pretrained.judge import Judged, choosing, judge
from keepset.paper.pretrained.pool import part_jobs, pooled_share
from keepset.paper.pretrained.probing_tables import (
    dependence_claims,
    pretrained_figure,
    pretrained_table,
    readouts_table,
    unique_table,
)
from keepset.paper.pretrained.readings import ATTENTION, NOBODY, ROLLOUT, SINK, TRACE, best, chance, read
from keepset.paper.pretrained.settings import BUDGET, RECORDS, Setting, frozen
from keepset.paper.pretrained.written import counted, record_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.testbed.tasks.records import RecordExample

NAME = "pretrained"
READOUTS: dict[Task, tuple[str, ...]] = {"unique": (ATTENTION,), "conflicting": (ATTENTION, TRACE, ROLLOUT)}
BARS = {"kept": NOBODY, "barred": SINK}
"""May record 0 be selected?"""

Ask = tuple[str, ...]
"""What a keep set is for."""
CURRENT: Ask = ("hidden", "current")
RANDOM: Ask = ("hidden", "random")
ALONE: Ask = ("alone",)


def jobs(scale: str) -> Jobs:
    """One result per model, task and part."""
    return part_jobs(
        scale, NAME, {task: (partial(Setting.size_of, task=task), partial(run, scale, task)) for task in SINGLE}
    )


def run(scale: str, task: Task, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part."""
    started = time.monotonic()
    model, _ = frozen(setting)
    examples = draw(setting, task, RECORDS, numbers)
    scores = [read(model, example, READOUTS[task]) for example in examples]
    probe = choosing(setting, examples)

    def asked(i: int, solved: bool) -> dict[Ask, KeepSet]:
        return keep_sets_of(examples[i], numbers[i], scores[i]) if solved else {}

    judged = judge(probe, asked)
    return record_result(
        NAME,
        scale,
        started,
        setting,
        task,
        RECORDS,
        [*dependence(judged), *preferences(examples, scores, judged), *routed(task, judged)],
        {"examples": len(examples), "tokens": probe.executor.cost.tokens},
        part=part,
    )


def keep_sets_of(example: RecordExample, number: int, scores: dict[str, Tensor]) -> dict[Ask, KeepSet]:
    """Everything that is asked of one solved example."""
    n = len(example.blocks)
    everything, current = frozenset(range(n)), example.evidence
    (other,) = best(chance(n, number), 1, barred=current)
    asks = {CURRENT: everything - current, RANDOM: everything - {other}, ALONE: current}
    if example.obsolete:
        for name, found_scores in scores.items():
            asks |= {("routed", name, bar): best(found_scores, BUDGET, barred) for bar, barred in BARS.items()}
    return asks


def dependence(judged: Judged[Ask]) -> list[Metric]:
    """Dense accuracy, flips and sufficiency."""
    return counted(
        [
            share_of("dense", judged.dense),
            judged.lost("flip", CURRENT, hidden="current"),
            judged.lost("flip", RANDOM, hidden="random"),
            judged.share("sufficient", ALONE),
        ]
    )


def preferences(examples: list[RecordExample], scores: list[dict[str, Tensor]], judged: Judged[Ask]) -> list[Metric]:
    """Where a readout puts most: on record 0; on an obsolete record rather than on the current one."""
    metrics: list[Metric | None] = []
    for name in scores[0]:
        values = [row[name] for row in scores]
        metrics.append(share_of("sink", [int(row.argmax()) == 0 for row in values], readout=name))
        if not examples[0].obsolete:
            continue
        over = [prefers_obsolete(example, row) for example, row in zip(examples, values, strict=True)]
        first = [0 in example.obsolete for example in examples]
        for among, wanted in (("all", [True] * len(over)), ("solved", judged.dense)):
            everywhere: list[Outcome] = [o if c else None for o, c in zip(over, wanted, strict=True)]
            elsewhere = [None if f else o for o, f in zip(everywhere, first, strict=True)]
            metrics.append(share_of("obsolete_over_current", everywhere, readout=name, among=among, sink="kept"))
            metrics.append(share_of("obsolete_over_current", elsewhere, readout=name, among=among, sink="elsewhere"))
    return counted(metrics)


def prefers_obsolete(example: RecordExample, scores: Tensor) -> bool:
    """Some obsolete record outscores the current one."""
    (current,) = example.evidence
    return bool(scores[sorted(example.obsolete)].max() > scores[current])


def routed(task: Task, judged: Judged[Ask]) -> list[Metric]:
    """A readout's best records alone, as an oracle."""
    return counted(
        judged.share("routed", ("routed", name, bar), readout=name, k=BUDGET, sink=bar)
        for name in READOUTS[task]
        for bar in BARS
    )


def dense_here(results: Results) -> str:
    """Dense accuracy on conflicting facts, model by model."""
    shares = {model: pooled_share(results, "dense", model=model, task="conflicting") for model in _names(results)}
    return ", ".join(f"{model} {share.value:.2f}" for model, share in shares.items() if share) or "not run"


def _names(results: Results) -> list[str]:
    return [str(name) for name in results.coordinates("model")]


EXPERIMENT = Experiment(
    name=NAME,
    place=54,
    jobs=jobs,
    reports=(
        Report("tab:pretrained", "pretrained", pretrained_table),
        Report("tab:app-pretrained-unique", "pretrained", unique_table),
        Report("fig:pretrained", "pretrained", pretrained_figure),
        Report("tab:trace-pretrained", "pretrained", readouts_table),
    ),
    claims=dependence_claims,
    claims_need=(margins.NAME,),
    differences=(
        Difference(
            "tab:pretrained, accuracy on conflicting facts",
            "0.23 (0.5B) to 1.00 (9B)",
            dense_here,
            "smaller models (not tested); in the paper, too, models below 3B prefer obsolete values",
        ),
    ),
    choices=(
        Choice(
            "The prompt of the pretrained record tasks",
            "plain text without a chat template, so that record 0 starts at the first token, as in the paper's audit; "
            "the answer's sentence is begun for the model",
        ),
        Choice(
            "How attention over records is pooled",
            "mass from the answer row, summed over the record's tokens, mean over heads and layers",
        ),
        Choice(
            "What is asked of a name that was updated",
            'its code now ("What is the code for NARO now?"): without the word both models here are right less often '
            "(`docs/log.md`)",
        ),
        Choice(
            "What else is in a conflicting-facts context",
            "other names are updated too (about two records a name), so that 'now' does not give the record away",
        ),
    ),
)

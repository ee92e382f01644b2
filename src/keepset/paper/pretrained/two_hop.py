"""Two hops: do readouts find both records an answer rests on? Gives ``tab:two-hop-readouts``.

    two_hop/<model>/readouts-<part>      the two best records of every readout alone; pointer or value hidden

Everything is told of solved examples, as in the paper.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from keepset.blocks import KeepSet
from keepset.paper.claim import Claim, none_claim, told
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Choice, Experiment, Jobs, Report
from keepset.paper.pretrained.examples import Task, draw_chains
from keepset.paper.pretrained.judge import Judged, choosing, judge
from keepset.paper.pretrained.pool import (
    INTERVAL_NOTE,
    cell,
    count,
    grouped,
    models,
    paper_rows,
    part_jobs,
    pooled_share,
)
from keepset.paper.pretrained.readings import ATTENTION, ROLLOUT, TRACE, best, chance, read
from keepset.paper.pretrained.settings import BUDGET, RECORDS, Setting, frozen
from keepset.paper.pretrained.written import bar_claim, record_result
from keepset.paper.result import At, Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.testbed.tasks.record_chains import ChainExample

NAME: Task = "two_hop"
READOUTS = (ATTENTION, ROLLOUT, TRACE)
ANNOTATED, RANDOM = "annotated", "random"
SELECTIONS = (*READOUTS, ANNOTATED, RANDOM)
PARTS = ("pointer", "value", "both")
"""Of a chain."""
SELDOM = 0.15
"""Share of solved examples on which a readout may hold both records and still not find the chain."""
ALONE = 0.95
"""Share of solved examples that the chain alone has to answer."""
SOLVES = 0.5
"""Dense accuracy; chance is 0.25."""


def jobs(scale: str) -> Jobs:
    """One result per model and part."""
    return part_jobs(scale, NAME, {"readouts": (attrgetter("hops"), partial(run, scale))})


def run(scale: str, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part."""
    started = time.monotonic()
    model, _ = frozen(setting)
    examples = draw_chains(setting, RECORDS, numbers)
    kept: list[dict[str, KeepSet]] = []
    for example, number in zip(examples, numbers, strict=True):
        scores = read(model, example, READOUTS) | {RANDOM: chance(RECORDS, number)}
        kept.append({name: best(row, BUDGET) for name, row in scores.items()} | {ANNOTATED: example.evidence})
    everything = frozenset(range(RECORDS))

    def asked(i: int, solved: bool) -> dict[str, KeepSet]:
        without = {f"no {name}": everything - {getattr(examples[i], name)} for name in PARTS[:2]}
        return kept[i] | without if solved else {}

    judged = judge(choosing(setting, examples), asked)
    metrics = readout_metrics(examples, kept, judged)
    return record_result(NAME, scale, started, setting, NAME, RECORDS, metrics, {"examples": len(examples)}, part=part)


def readout_metrics(
    examples: Sequence[ChainExample], kept: Sequence[dict[str, KeepSet]], judged: Judged[str]
) -> list[Metric | None]:
    """Dense; what is left without one of the two; routed and recalled by every selection."""
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    metrics += [judged.share("left", f"no {name}", hidden=name) for name in PARTS[:2]]
    for name in SELECTIONS:
        metrics.append(judged.share("routed", name, selection=name))
        metrics += chain_recalls(examples, [row[name] for row in kept], judged.dense, selection=name)
    return metrics


def chain_recalls(
    examples: Sequence[ChainExample], kept: Sequence[KeepSet], counted: Sequence[bool], **at: Coordinate
) -> list[Metric | None]:
    """How often the pointer, the value, and both are kept."""
    wanted = {
        "pointer": [frozenset({example.pointer}) for example in examples],
        "value": [frozenset({example.value}) for example in examples],
        "both": [example.evidence for example in examples],
    }
    metrics = []
    for name, sets in wanted.items():
        outcomes: list[Outcome] = [w <= k if c else None for w, k, c in zip(sets, kept, counted, strict=True)]
        metrics.append(share_of("recall", outcomes, of=name, **at))
    return metrics


PAPER = """
Qwen2.5-7B | attention | 190 | 0.34 | 0.43 | 0.25 | 0.05
Qwen2.5-7B | rollout | 190 | 0.21 | 0.13 | 0.11 | 0.02
Qwen2.5-7B | trace | 190 | 0.34 | 0.60 | 0.26 | 0.07
Qwen2.5-7B | annotated | 190 | 1.00 | 1.00 | 1.00 | 1.00
Qwen2.5-7B | random | 190 | 0.22 | 0.16 | 0.12 | 0.01
Qwen2.5-3B | attention | 161 | 0.34 | 0.17 | 0.17 | 0.01
Qwen2.5-3B | rollout | 161 | 0.25 | 0.13 | 0.11 | 0.02
Qwen2.5-3B | trace | 161 | 0.33 | 0.17 | 0.14 | 0.01
Qwen2.5-3B | annotated | 161 | 1.00 | 1.00 | 1.00 | 1.00
Qwen2.5-3B | random | 161 | 0.24 | 0.11 | 0.12 | 0.01
Yi-1.5-9B | attention | 179 | 0.48 | 0.21 | 0.53 | 0.06
Yi-1.5-9B | rollout | 179 | 0.21 | 0.12 | 0.10 | 0.02
Yi-1.5-9B | trace | 179 | 0.67 | 0.22 | 0.78 | 0.10
Yi-1.5-9B | annotated | 179 | 1.00 | 1.00 | 1.00 | 1.00
Yi-1.5-9B | random | 179 | 0.27 | 0.14 | 0.11 | 0.01
"""


def two_hop_table(results: Results) -> Table:
    """``tab:two-hop-readouts``."""
    groups = []
    notes = []
    for model in models(results):
        at: At = {"model": model}
        rows = []
        for name in SELECTIONS:
            recalls = [cell(results, "recall", selection=name, of=part, **at) for part in PARTS]
            routed = cell(results, "routed", selection=name, **at)
            rows.append((model, name, count(results, "routed", selection=name, **at), routed, *recalls))
        groups.append(rows)
        dense = pooled_share(results, "dense", **at)
        left = ", ".join(f"{cell(results, 'left', hidden=name, **at)} without the {name}" for name in PARTS[:2])
        if dense:
            guessed = "" if solves(results, model) else " (chance: 0.25, so these are mostly guesses)"
            notes.append(
                f"{model} solves {round(dense.value * dense.n)} of {dense.n}{guessed}; of these it answers {left}."
            )
    return Table(
        name="tab-two-hop-readouts",
        caption=(
            "Two hops, 16 records in eight chains, four candidates from the context: each row keeps the two best "
            "records of a readout. Of the examples the model solves: how often it still answers, and how often the "
            "pointer, the value and both are kept."
        ),
        columns=("Model", "Selection", "Solved", "Routed", "Pointer", "Value", "Both"),
        rows=(*grouped(groups), *paper_rows(PAPER)),
        notes=(INTERVAL_NOTE, *notes),
    )


def solves(results: Results, model: str) -> bool:
    """More than half: of a model at chance, solved examples are lucky guesses, and nothing follows from them."""
    dense = pooled_share(results, "dense", model=model)
    return dense is not None and dense.value > SOLVES


def two_hop_claims(results: Results) -> list[Claim]:
    """No readout finds the chain of a solved example; the chain alone is enough."""
    claims = []
    for model in filter(partial(solves, results), models(results)):
        at: At = {"model": model}
        both = [pooled_share(results, "recall", selection=name, of=PARTS[-1], **at) for name in READOUTS]
        found = [metric for metric in both if metric]
        if found:
            text = f"Two hops ({model}): the two best records of a readout are the chain on at most {SELDOM} of solved"
            judged = none_claim(text, "0.01 to 0.10", found, SELDOM, f"{found[0].n} solved")
            claims.append(replace(judged, verdict=told(judged.verdict, found[0].n)))
        alone = pooled_share(results, "routed", selection=ANNOTATED, **at)
        if alone:
            text = f"Two hops ({model}): the chain alone is enough on at least {ALONE} of solved"
            claims.append(bar_claim(text, "1.00", alone, ALONE, "solved"))
    return claims


EXPERIMENT = Experiment(
    NAME,
    place=65,
    jobs=jobs,
    reports=(Report("tab:two-hop-readouts", "pretrained", two_hop_table),),
    claims=two_hop_claims,
    choices=(
        Choice(
            "The pretrained multi-hop task",
            "'The code for NARO is the same as the code for BELU.', eight pointers to eight value records in any "
            "order, wrong candidates from the other chains",
        ),
    ),
)

"""Who reads a shuffled chain: the answer row, or the records before it?

A model that reads from left to right can join a record to the one that names it wherever the second of the two stands;
the answer row then has no need of the first. On every hardened teacher: does a selection hold a record that stands
before the one that names it, and one that stands after? And, by intervention: is the chain answered when only the query
may read the value, and when only the other records may? One result per teacher.
"""

import time
from functools import partial

import torch
from torch import Tensor

from keepset import seeds
from keepset.interventions import answer_logits
from keepset.paper.chain_routers import CHAIN, EXAMPLES
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.hardened_routers import CONDITION
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.oracles import readout_scores
from keepset.paper.result import Coordinate, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks, chain_recall, top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.paper.teachers import every_teacher, teacher_seeds

NAME = "hardened_reading"
MIXTURES = {"hardened-pointers-first": "pointers first", "hardened": "value first"}
"""Hardened teachers -> the order of the chains they learned from before chains had none."""
SELECTIONS = {
    "attention_max": "attention, max heads",
    "attention_mean": "attention, mean heads",
    "trace": "backward trace",
}


def jobs(scale: str) -> Jobs:
    """One result per hardened teacher."""
    return {
        f"{NAME}/{mixture}-{seed}": partial(reading, scale, mixture, seed)
        for mixture in MIXTURES
        for seed in teacher_seeds(scale, mixture)
    }


def reading(scale: str, mixture: str, seed: int) -> RunResult:
    """What selections hold of shuffled chains, and who has to read the value, on one teacher."""
    started = time.monotonic()
    subject = Labelled.load(scale, mixture, seed, CONDITION, EXAMPLES[scale])
    chain = chain_blocks(subject.batch)
    scores = readout_scores(subject.model, subject.batch)
    metrics = [share("dense", int(subject.effects.clean_correct.sum()), subject.n)]
    for selection in SELECTIONS:
        metrics += placed_recall(chain_recall(top_blocks(scores[selection], CHAIN), chain), chain, selection)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={"condition": CONDITION, "budget": CHAIN, "n_blocks": len(subject.batch.blocks)},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": subject.n},
        metrics=[*metrics, *read_by(subject, chain)],
    )


def placed_recall(recall: Tensor, chain: Tensor, selection: str) -> list[Metric]:
    """How often a record is found that stands before the one that names it, and one that stands after it."""
    metrics: list[Metric] = []
    for record in range(1, CHAIN):
        before = chain[:, record] < chain[:, record - 1]
        metrics += by_place("recall", recall[:, record], before, selection=selection, record=record)
    in_order = (chain.diff(dim=1) > 0).all(1)
    if n := int(in_order.sum()):
        metrics.append(share("whole_in_order", int(recall[in_order].all(1).sum()), n, selection=selection))
    return metrics


def read_by(subject: Labelled, chain: Tensor) -> list[Metric]:
    """Is it answered when only the query may read the value, and when only the other records may?"""
    tokens, answers = subject.batch.first_query(), subject.batch.answers[:, 0]
    n_tokens, context = tokens.shape[1], subject.batch.context_tokens
    value = torch.nn.functional.one_hot(chain[:, -1], len(subject.batch.blocks)).bool()  # (B, N)
    before = chain[:, -1] < chain[:, -2]
    metrics: list[Metric] = []
    for readers, blind in (("query", slice(0, context)), ("records", slice(context, n_tokens))):
        visible = torch.ones(subject.n, n_tokens, value.shape[1], dtype=torch.bool)
        visible[:, blind] = ~value.unsqueeze(1)
        right = answer_logits(subject.model, tokens, subject.batch.blocks, visible).argmax(-1).cpu() == answers
        metrics += by_place("answered", right, before, readers=readers)
    return metrics


def by_place(what: str, right: Tensor, before: Tensor, **at: Coordinate) -> list[Metric]:
    """The share of (B,) ``right`` where a record stands before the one that names it, and where after it."""
    return [
        share(what, int(right[examples].sum()), n, stands=stands, **at)
        for stands, examples in (("before", before), ("after", ~before))
        if (n := int(examples.sum()))
    ]


def teachers_of(results: Results) -> list[dict[str, Coordinate]]:
    """Those that have been measured."""
    return [run.at for run in results.runs.values()]


def places_table(results: Results) -> Table:
    """Whether a selection holds a record depends on whether it was read before the one that names it."""
    rows = []
    for at in teachers_of(results):
        for selection, title in SELECTIONS.items():
            placed = (
                if_any(results, "recall", selection=selection, record=record, stands=stands, **at)
                for record in range(1, CHAIN)
                for stands in ("after", "before")
            )
            whole = if_any(results, "whole_in_order", selection=selection, **at)
            rows.append((f"{at['mixture']}-{at['teacher']}", title, *placed, whole))
    return Table(
        name="hardened-places",
        caption=(
            "Hardened chains, by where their records stand: how often the three blocks of each selection hold the "
            "second pointer and the value, where they stand after the record that names them and where they stand "
            "before it; and how often they hold the whole chain where it stands in order, first pointer, second "
            "pointer, value."
        ),
        columns=(
            "Teacher",
            "Selection",
            "Second pointer, after the first",
            "Second pointer, before it",
            "Value, after its pointer",
            "Value, before it",
            "Whole chain, in order",
        ),
        rows=tuple(rows),
        notes=(
            counts_note(results),
            "About half of the records stand before the one that names them, and a sixth of the chains in order.",
        ),
    )


def readers_table(results: Results) -> Table:
    """Who has to read the value."""
    rows = []
    for at in teachers_of(results):
        cells = (
            if_any(results, "answered", readers=readers, stands=stands, **at)
            for stands in ("after", "before")
            for readers in ("query", "records")
        )
        rows.append((f"{at['mixture']}-{at['teacher']}", f"{results.value('dense', **at):.2f}", *cells))
    return Table(
        name="hardened-readers",
        caption=(
            "Hardened chains with nothing hidden but one path: how often they are answered when only the query may "
            "read the value, and when only the other records may, by where the value stands."
        ),
        columns=(
            "Teacher",
            "Dense",
            "Value after its pointer, read by the query",
            "by the records",
            "Value before its pointer, read by the query",
            "by the records",
        ),
        rows=tuple(rows),
        notes=(counts_note(results),),
    )


def counts_note(results: Results) -> str:
    run = next(iter(results.runs.values()))
    return f"{run.counts['examples']} examples per teacher, {run.scale} scale; 95 % intervals in brackets."


def if_any(results: Results, what: str, **at: Coordinate) -> str:
    """Of few examples, none may have its records in some order."""
    return "–" if results.select(what, **at).empty else with_interval(results.metric(what, **at))


def read_before(results: Results, mixture: str, teacher: int) -> str:
    """What one teacher does with a value that stands before its pointer, in words."""
    at: dict[str, Coordinate] = {"mixture": mixture, "teacher": teacher, "stands": "before"}
    query, records = (if_any(results, "answered", readers=readers, **at) for readers in ("query", "records"))
    held = if_any(results, "recall", selection="attention_mean", record=CHAIN - 1, **at)
    return (
        f"learned from chains {MIXTURES[mixture]}: attention holds a value that stands before its pointer on {held}; "
        f"answered if only the records may read it {records}, if only the query may {query}"
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=41,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    reports=(
        Report("What attention holds of hardened chains, by where records stand", "chains", places_table, beyond=True),
        Report("Who has to read the value of a hardened chain", "chains", readers_table, beyond=True),
    ),
)

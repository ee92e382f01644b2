"""Is the middle of a chain missed because there are many records? The same teachers, asked in shorter contexts.

In a context of 32 records the three most attended blocks have many rivals, in one of eight hardly any: a record that is
attended at all is then among them, and one that is not is there as often as by chance. One result per teacher.
"""

import time
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from keepset import seeds
from keepset.paper.chain_routers import CHAIN
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks, chain_recall, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, SMALLER_FIVE_TASK, every_teacher, teacher_folder, teacher_seeds
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.teacher import accuracy, load_teacher
from keepset.readouts import answer_attention, pool_attention

NAME = "shorter_chains"
MIXTURES = (FIVE_TASK, SMALLER_FIVE_TASK)
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
LENGTHS = (8, 16, 32)
"""Records of a context, up to as many as a teacher has learned from."""
MIDDLE = 1
"""Of the records of a chain."""


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {
        f"{NAME}/{mixture}-{seed}": partial(attended, scale, mixture, seed)
        for mixture in MIXTURES
        for seed in teacher_seeds(scale, mixture)
    }


def attended(scale: str, mixture: str, seed: int) -> RunResult:
    """Which records of a chain one teacher attends to most, by the length of the context."""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, mixture, seed))
    lengths = [length for length in LENGTHS if length <= config.n_blocks]
    metrics: list[Metric] = []
    for length in lengths:
        batch = sample_condition(
            MULTIHOP, seeds.INTERVENTION.seed(RUN), EXAMPLES[scale], length, config.block_width, config.vocabulary
        )
        with torch.no_grad():
            attention = answer_attention(model, batch.first_query(), batch.blocks)
        kept = top_blocks(pool_attention(attention, heads="max"), CHAIN)
        here = partial(share, n=len(batch), length=length)
        metrics.append(here("dense", int(accuracy(model, batch).sum())))
        metrics.append(here("routed", int(routed_correct(routed_probe(model, batch), kept).sum()), k=CHAIN))
        metrics += recalls(here, kept, chain_blocks(batch))
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={"mixture": mixture, "seed": seed, "condition": MULTIHOP, "budget": CHAIN, "lengths": lengths},
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": EXAMPLES[scale]},
        metrics=metrics,
    )


def recalls(here: "partial[Metric]", kept: Tensor, chain: Tensor) -> list[Metric]:
    """How often each record of the chain is among the kept."""
    recall = chain_recall(kept, chain)
    return [here("recall", int(recall[:, i].sum()), record=i) for i in range(CHAIN)]


def shorter_table(results: Results) -> Table:
    """Each teacher at every length it knows: the middle record, and the whole selection."""
    rows: list[tuple[str, ...]] = []
    for mixture in MIXTURES:
        for teacher in teachers_of(results, mixture):
            at: At = {"mixture": mixture, "teacher": teacher}
            known = results.run(**at).config["lengths"]
            middle = (
                with_interval(results.metric("recall", length=length, record=MIDDLE, **at)) if length in known else ""
                for length in LENGTHS
            )
            routed = (
                f"{results.value('routed', length=length, **at):.2f}" if length in known else "" for length in LENGTHS
            )
            rows.append((f"{mixture}-{teacher}", *middle, *routed))
        rows.append(())
    return Table(
        name="shorter-chains",
        caption=(
            "The same teachers in shorter contexts: how often the three blocks most attended by the answer row (max "
            "heads, mean over layers) hold the middle record of a chain, and how often they are enough. Both ends are "
            f"among them on {ends(results):.2f} or more everywhere."
        ),
        columns=(
            "Teacher",
            *(f"Middle held, {length} records" for length in LENGTHS),
            *(f"Routed, {length} records" for length in LENGTHS),
        ),
        rows=tuple(rows[:-1]),
        notes=(
            f"n = {results.run().counts['examples']} examples per cell; 95 % intervals in brackets. With both ends "
            f"kept, a third block at random is the middle record on one in {LENGTHS[0] - 2} contexts of {LENGTHS[0]} "
            "records.",
        ),
    )


def teachers_of(results: Results, mixture: str) -> list[int]:
    """Those that have been measured."""
    return sorted({int(run.at["teacher"]) for run in results.runs.values() if run.at["mixture"] == mixture})


def ends(results: Results) -> float:
    """The least share of contexts whose first pointer, or value, is among the most attended."""
    return min(value for record in (0, CHAIN - 1) for value in results.values("recall", record=record))


def middle_by_length(results: Results, mixture: str) -> str:
    """Middle held by every teacher of ``mixture``, length by length; nothing where it was not run."""
    teachers = teachers_of(results, mixture) if results else []
    return "; ".join(
        f"{length} records: {shown(results, mixture, teachers, length)}"
        for length in LENGTHS
        if teachers and length in results.run(mixture=mixture).config["lengths"]
    )


def shown(results: Results, mixture: str, teachers: Sequence[int], length: int) -> str:
    return ", ".join(
        f"{results.value('recall', mixture=mixture, teacher=teacher, length=length, record=MIDDLE):.2f}"
        for teacher in teachers
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=35,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    reports=(Report("Whether many records hide the middle of a chain", "chains", shorter_table, beyond=True),),
)

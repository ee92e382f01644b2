"""The backward trace under every reading of the paper's words, on the paper's chains.

The paper: "a backward max-product trace from the answer" that "keeps the strongest single path to each position". It
does not say how heads are joined, what staying in place costs, or how positions become blocks. The tables read it as
``readouts.backward_trace`` does. Another reading was once picked, out of all 24 combinations of heads, staying, blocks
and value norms, by the smaller teachers on the sample ``choice``; on teachers that had no part in it, it is worse
(``docs/log.md``). ``evaluation`` are the examples of the oracles. One result per teacher.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch, Span
from keepset.paper.chain_routers import CHAIN
from keepset.paper.claim import Claim, every_claim
from keepset.paper.experiment import Choice, Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks, chain_recall, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, spread, with_interval
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, SMALLER_FIVE_TASK, every_teacher, teacher_folder, teacher_seeds
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.readouts import shared_layers
from keepset.readouts.layers import Layer, block_sums
from keepset.readouts.paths import descend, reached

NAME = "trace_choices"
MIXTURES = (FIVE_TASK, SMALLER_FIVE_TASK)
CONDITION = MULTIHOP
CHOICE_RUN = 30
"""Of the seed range 'intervention'."""
SAMPLES = {"choice": CHOICE_RUN, "evaluation": RUN}
EXAMPLES = {
    "smoke": {"choice": 4, "evaluation": 6},
    "small": {"choice": 150, "evaluation": 300},
    "paper": {"choice": 150, "evaluation": 300},
}


@dataclass(frozen=True)
class Reading:
    """One reading of the paper's sentence."""

    title: str
    heads: Literal["max", "mean"] = "max"
    stay: Literal["free", "mixed", "attended"] = "free"
    """What staying in place is worth in a layer: 1; rollout's mix with the identity; what a row attends to itself."""
    block: Literal["sum", "max"] = "max"
    """What a block takes of its tokens."""
    value_norms: bool = False
    """Attention times the norm of what is read, made a distribution again."""
    first_block: bool = True
    """May the first block be selected?"""

    def scores(self, model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
        """(B, N)"""
        reach = descend(model, tokens, self.step)
        if self.block == "sum":
            found = block_sums(reach, blocks)
        else:
            found = torch.stack([reach[:, span.start : span.stop].amax(-1) for span in blocks], dim=-1)
        if not self.first_block:
            found[:, 0] = -1.0
        return found

    def step(self, layer: Layer, reach: Tensor) -> Tensor:
        """(B, T) how strongly rows are reached after a layer -> before it."""
        best = reach.clone() if self.stay == "free" else torch.zeros_like(reach)
        for rows, attention in layer.chunks(reached(reach)):
            if self.value_norms:
                attention = attention * layer.values(rows.stop).norm(dim=-1).unsqueeze(2)
                attention = attention / attention.sum(-1, keepdim=True)
            weights = attention.amax(1) if self.heads == "max" else attention.mean(1)  # (B, rows, keys)
            if self.stay == "mixed":
                here = torch.arange(len(rows))
                weights[:, here, rows.start + here] += 1.0  # the half that both sides have is left out
            steps = reach[:, rows.start : rows.stop, None] * weights
            best[:, : rows.stop] = torch.maximum(best[:, : rows.stop], steps.amax(1))
        return best


CHOSEN = "strongest_token"
PICKED = "summed"
"""By the smaller teachers, on the sample ``choice``."""
READINGS = {
    CHOSEN: Reading("strongest head, staying is free, a block takes its strongest token (the tables')"),
    "strongest_token_no_first": Reading("first block never selected", first_block=False),
    "mean_heads_strongest_token": Reading("mean over heads", heads="mean"),
    PICKED: Reading("a block's tokens summed (picked by the smaller teachers)", block="sum"),
    "mean_heads": Reading("tokens summed, mean over heads", heads="mean", block="sum"),
    "stay_mixed": Reading("tokens summed, staying as in rollout, mixed with the identity", stay="mixed", block="sum"),
    "stay_attended": Reading(
        "tokens summed, staying costs the attention a row pays itself", stay="attended", block="sum"
    ),
    "value_norms": Reading("tokens summed, attention times the norm of the values", value_norms=True, block="sum"),
}


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {
        f"{NAME}/{mixture}-{seed}": partial(readings, scale, mixture, seed)
        for mixture in MIXTURES
        for seed in teacher_seeds(scale, mixture)
    }


def readings(scale: str, mixture: str, seed: int) -> RunResult:
    """Every reading on one teacher: is the question answered from its three blocks, and which records are kept?"""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, mixture, seed))
    metrics: list[Metric] = []
    for sample, run in SAMPLES.items():
        batch = sample_condition(
            CONDITION,
            seeds.INTERVENTION.seed(run),
            EXAMPLES[scale][sample],
            config.n_blocks,
            config.block_width,
            config.vocabulary,
        )
        metrics += measured(model, batch, sample)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={"mixture": mixture, "seed": seed, "condition": CONDITION, "budget": CHAIN, "n_blocks": config.n_blocks},
        seeds={sample: seeds.INTERVENTION.seed(run) for sample, run in SAMPLES.items()},
        counts=EXAMPLES[scale],
        metrics=metrics,
    )


def measured(model: PreTrainedModel, batch: ExampleBatch, sample: str) -> list[Metric]:
    tokens, probe, chain = batch.first_query(), routed_probe(model, batch), chain_blocks(batch)
    with shared_layers():
        scores = {name: reading.scores(model, tokens, batch.blocks) for name, reading in READINGS.items()}
    metrics: list[Metric] = []
    for name, found in scores.items():
        kept = top_blocks(found, CHAIN)
        here = partial(share, n=len(batch), sample=sample, reading=name)
        metrics.append(here("routed", int(routed_correct(probe, kept).sum())))
        metrics += [
            here("recall", int(held.sum()), record=i) for i, held in enumerate(chain_recall(kept, chain).unbind(1))
        ]
        intruding = kept[:, 0] & ~batch.family[:, 0, 0]
        metrics.append(here("first_block_intrudes", int(intruding.sum())))
    return metrics


def readings_table(results: Results) -> Table:
    """Every reading on every teacher of the tables; on the smaller ones, and on the examples of the choice."""
    own, smaller = (results.where(mixture=mixture) for mixture in MIXTURES)
    teachers = own.coordinates("teacher")
    rows = []
    for name, reading in READINGS.items():
        found = [own.metric("routed", reading=name, sample="evaluation", teacher=teacher) for teacher in teachers]
        others = (smaller.values("routed", reading=name, sample=sample) for sample in ("evaluation", "choice"))
        intruder = smaller.values("first_block_intrudes", reading=name, sample="evaluation")
        rows.append((reading.title, *map(with_interval, found), *map(spread, others), spread(intruder)))
    run = own.run()
    return Table(
        name="trace-choices",
        caption=(
            f"The backward trace as a selection of three of {run.config['n_blocks']} blocks under every reading of the "
            f"paper's words: routed accuracy on each {FIVE_TASK} teacher (the paper: 0.90–0.99 over four). Then the "
            f"range over the {SMALLER_FIVE_TASK} teachers, of {smaller.run().config['n_blocks']} blocks; over the same "
            "teachers on the examples by which the fourth row had been picked from 24 combinations; and how often "
            "their first block is selected and is no record of the chain."
        ),
        columns=(
            "Reading",
            *(f"seed {teacher}" for teacher in teachers),
            "smaller teachers",
            "… on the choice's examples",
            "… first block",
        ),
        rows=tuple(rows),
        notes=(
            f"n = {run.counts['evaluation']} examples per teacher, {run.counts['choice']} of the choice; "
            f"{run.scale} scale; 95 % intervals in brackets. Rows differ from the first in what they name. No "
            f"{FIVE_TASK} teacher had a part in any choice.",
        ),
    )


BAR = 0.9


def trace_claims(results: Results) -> list[Claim]:
    """The strongest paths lead to the chain, on every teacher; and whether that hangs on our reading."""
    own, smaller = (results.where(mixture=mixture) for mixture in MIXTURES)

    def found(reading: str) -> list[Metric]:
        return [
            own.metric("routed", reading=reading, sample="evaluation", teacher=teacher)
            for teacher in own.coordinates("teacher")
        ]

    claim = every_claim(
        f"Chains, pointers first: the backward trace finds the chain: at least {BAR} on every teacher",
        "0.90–0.99",
        found(CHOSEN),
        BAR,
        f"{len(own.coordinates('teacher'))} teachers × {own.run().counts['evaluation']} examples",
    )
    varied = [
        f"{reading.title}: {spread([metric.value for metric in found(name)])}"
        for name, reading in READINGS.items()
        if name != CHOSEN
    ]
    on_smaller = spread(smaller.values("routed", reading=CHOSEN, sample="evaluation"))
    varied.append(f"the tables' reading on {SMALLER_FIVE_TASK} teachers: {on_smaller}")
    return [replace(claim, own_choice="; ".join(varied))]


EXPERIMENT = Experiment(
    name=NAME,
    place=37,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    reports=(Report("The backward trace under every reading", "chains", readings_table, beyond=True),),
    claims=trace_claims,
    choices=(
        Choice(
            "The backward trace",
            "strongest head per step, staying in place is free, a block takes its strongest token; other readings: "
            "`keepset reproduce trace_choices`",
        ),
    ),
)

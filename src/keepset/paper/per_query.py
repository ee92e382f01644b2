"""Does selecting per query prune? The four protocols of ``interventions.protocols`` at three blocks a row.

Gives ``tab:per-query``. One result per five-task teacher, on the examples of the oracles: the protocols choose from the
same attention.

    attention_max, attention_mean   global: the three blocks the answer row attends to most, mean over layers
    per_layer                       every row of every layer keeps the three it attends to most there
    layer_averaged                  every row keeps the three it attends to most in the mean over layers
    dense_prefill                   only the answer row is restricted, to the blocks of ``attention_max``
    causal                          global: the three blocks whose hiding costs the answer most

A row chooses among blocks at or before it, its own among them, since it attends to no others. What the paper leaves
open is varied on multi-hop, layer-averaged:

    layer_averaged_mean             heads averaged, not maximised
    layer_averaged_others           a row's own block is not among those it chooses from
    layer_averaged_mean_others      both
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import Span
from keepset.interventions import answer_logits, dense_prefill
from keepset.models.masks import block_numbers, may_read
from keepset.paper.claim import FAILS, HOLDS, NOT_TESTED, Claim
from keepset.paper.experiment import Choice, Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, beside, spread
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, every_teacher, teacher_seeds
from keepset.readouts import answer_attention, pool_attention
from keepset.readouts.layers import Layer, block_sums, visit_layers

NAME = "per_query"
MIXTURE = FIVE_TASK
CONDITIONS = (MULTIHOP, "unique")
BUDGET = 3
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
CHUNK = 50
"""Examples whose masks are held at once."""


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"{NAME}/{MIXTURE}-{seed}": partial(protocols, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def protocols(scale: str, seed: int) -> RunResult:
    """Every protocol on one teacher: routed accuracy and both budgets, measured."""
    started = time.monotonic()
    metrics: list[Metric] = []
    for condition in CONDITIONS:
        subject = Labelled.load(scale, MIXTURE, seed, condition, EXAMPLES[scale])
        right = int(subject.effects.clean_correct.sum())
        metrics.append(share("routed", right, subject.n, condition=condition, arm="dense"))
        for protocol, visible in selections(subject).items():
            metrics += measured(protocol, subject, visible)
        if condition == MULTIHOP:
            for variant, visible in varied(subject).items():
                metrics += measured(variant, subject, visible)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": seed},
        config={
            "mixture": MIXTURE,
            "seed": seed,
            "conditions": list(CONDITIONS),
            "budget": BUDGET,
            "n_blocks": len(subject.batch.blocks),
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": EXAMPLES[scale]},
        metrics=metrics,
    )


def selections(subject: Labelled) -> dict[str, Tensor]:
    """Protocol -> which row sees which block, in the shapes of ``interventions.protocols``."""
    tokens, blocks = subject.batch.first_query(), subject.batch.blocks
    answer_row = answer_attention(subject.model, tokens, blocks)
    attention_max = top_blocks(pool_attention(answer_row, heads="max"), BUDGET)
    attention_mean = top_blocks(pool_attention(answer_row, heads="mean"), BUDGET)
    rows = row_attention(subject.model, tokens, blocks, "max")  # (L, B, T, N)
    return {
        "attention_max": attention_max.unsqueeze(1),
        "attention_mean": attention_mean.unsqueeze(1),
        "per_layer": top_rows(rows),
        "layer_averaged": top_rows(rows.mean(0)),
        "dense_prefill": dense_prefill(attention_max, tokens.shape[1]),
        "causal": top_blocks(subject.effects.drop, BUDGET).unsqueeze(1),
    }


def varied(subject: Labelled) -> dict[str, Tensor]:
    """Layer-averaged selection under other readings of it."""
    tokens, blocks = subject.batch.first_query(), subject.batch.blocks
    own = own_block(blocks, tokens.shape[1])
    highest, mean = (row_attention(subject.model, tokens, blocks, heads).mean(0) for heads in ("max", "mean"))
    return {
        "layer_averaged_mean": top_rows(mean),
        "layer_averaged_others": top_rows(highest.masked_fill(own, -1.0)),
        "layer_averaged_mean_others": top_rows(mean.masked_fill(own, -1.0)),
    }


def row_attention(
    model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span], heads: Literal["max", "mean"]
) -> Tensor:
    """(L, B, T, N) attention of every row of every layer over blocks, maximum or mean over heads."""
    layers: list[Tensor] = []
    n_tokens = tokens.shape[1]

    def read(layer: Layer) -> None:
        looked = torch.zeros(len(tokens), n_tokens, len(blocks))
        for piece, attention in layer.chunks(Span(0, n_tokens)):
            padded = torch.nn.functional.pad(attention, (0, n_tokens - piece.stop))
            summed = block_sums(padded, blocks)
            looked[:, piece.start : piece.stop] = (summed.amax(1) if heads == "max" else summed.mean(1)).cpu()
        layers.append(looked)

    visit_layers(model, tokens, read)
    return torch.stack(layers)


def top_rows(attention: Tensor) -> Tensor:
    """(..., N) -> bool: the blocks each row keeps."""
    return top_blocks(attention.flatten(0, -2), BUDGET).view(attention.shape)


def measured(protocol: str, subject: Labelled, visible: Tensor) -> list[Metric]:
    """Accuracy under the table ``visible``, and the row and context budgets that it really leaves."""
    tokens, answers = subject.batch.first_query(), subject.batch.answers[:, 0]
    right = 0
    row_budgets, context_budgets, chosen_budgets = [], [], []
    for rows in torch.arange(subject.n).split(CHUNK):
        table = visible[..., rows, :, :]
        logits = answer_logits(subject.model, tokens[rows], subject.batch.blocks, table)
        right += int((logits.argmax(-1) == answers[rows]).sum())
        read = blocks_read(table, subject.batch.blocks, tokens.shape[1])  # (L, B, T, N)
        row_budgets.append(read.float().mean(-1).amax((0, 2)))
        context_budgets.append(read.any(2).any(0).float().mean(-1))
        chosen_budgets.append(chosen(table, subject.batch.blocks, tokens.shape[1]).float().mean(-1))
    at: At = {"condition": subject.condition, "arm": protocol}
    return [
        share("routed", right, subject.n, **at),
        Metric(what="row_budget", at=at, value=float(torch.cat(row_budgets).mean()), n=subject.n),
        Metric(what="context_budget", at=at, value=float(torch.cat(context_budgets).mean()), n=subject.n),
        Metric(what="chosen_budget", at=at, value=float(torch.cat(chosen_budgets).mean()), n=subject.n),
    ]


def blocks_read(visible: Tensor, blocks: Sequence[Span], n_tokens: int) -> Tensor:
    """(L, B, T, N) bool: the blocks other than its own that a row may read any token of.

    The row budget is the largest share of them a row has at one layer; the context budget is the share of blocks that
    some row outside has at some layer. A block that only its own rows read gives the rest of the pass nothing.
    """
    numbers = block_numbers(blocks, n_tokens)
    allowed = may_read(numbers, visible if visible.ndim == 4 else visible.unsqueeze(0))  # (L, B, T, T)
    seen = torch.stack([allowed[..., span.start : span.stop].any(-1) for span in blocks], dim=-1)
    return seen & ~own_block(blocks, n_tokens)


def own_block(blocks: Sequence[Span], n_tokens: int) -> Tensor:
    """(T, N) bool: the block that a row stands in."""
    return block_numbers(blocks, n_tokens).unsqueeze(1) == torch.arange(len(blocks))


def chosen(visible: Tensor, blocks: Sequence[Span], n_tokens: int) -> Tensor:
    """(B, N) bool: the blocks that some row at or after them chose at some layer, its own among them."""
    starts = torch.tensor([span.start for span in blocks])
    reached = torch.arange(n_tokens).unsqueeze(1) >= starts  # (T, N)
    table = visible if visible.ndim == 4 else visible.unsqueeze(0)  # (L, B, 1 or T, N)
    return (table & reached).any(2).any(0)


PROTOCOLS = {
    "attention_max": ("Attention, global (max heads)", ("0.41–0.87", "0.91–1.00", "0.09", "0.09")),
    "attention_mean": ("Attention, global (mean heads)", ("0.48–0.98", "0.90–0.99", "0.09", "0.09")),
    "per_layer": ("Attention, per query, per layer", ("0.94–1.00", "0.91–1.00", "0.09", "1.00")),
    "layer_averaged": ("Attention, per query, layer-averaged", ("0.93–0.98", "0.91–1.00", "0.09", "1.00")),
    "dense_prefill": ("Attention, dense prefill, sparse answer", ("0.96–1.00", "0.89–0.99", "1.00", "1.00")),
    "causal": ("Causal, global", ("0.98–0.99", "0.96–0.99", "0.09", "0.09")),
}
"""Arm -> title; the paper's multi-hop, unique, row budget, context budget."""


def per_query_table(results: Results) -> Table:
    """Ranges over teachers; the budgets as measured, over both tasks."""
    rows: list[tuple[str, ...]] = []
    for protocol, (title, papers) in PROTOCOLS.items():
        found = (
            *(results.values("routed", arm=protocol, condition=condition) for condition in CONDITIONS),
            results.values("row_budget", arm=protocol),
            results.values("context_budget", arm=protocol),
        )
        rows.append((title, *beside(map(spread, found), papers)))
    dense = [spread(results.values("routed", arm="dense", condition=condition)) for condition in CONDITIONS]
    rows += [(), ("Dense teacher", *dense, "", "")]
    run = results.run()
    return Table(
        name="tab-per-query",
        caption=(
            f"Routing under per-query selection, {run.config['budget']} blocks of {run.config['n_blocks']} (the paper: "
            "3 of 32): ranges over teachers, the paper's in brackets. Row budget: the largest share of blocks a row "
            "may read outside its own. Context budget: the share of blocks that some row outside the block may read at "
            "some layer. Both are measured on the masks, averaged over examples."
        ),
        columns=("Protocol", "Multi-hop", "Unique", "Row budget", "Context budget"),
        rows=tuple(rows),
        notes=(
            f"{run.scale.capitalize()} scale; n = {run.counts['examples']} examples per teacher and task, "
            f"{len(results.coordinates('teacher'))} {MIXTURE} teachers. Causal: the blocks whose hiding costs the "
            "answer most.",
        ),
    )


READINGS = {
    "layer_averaged": "maximum over heads, own block among the choices (tab:per-query)",
    "layer_averaged_mean": "mean over heads",
    "layer_averaged_others": "own block not among the choices",
    "layer_averaged_mean_others": "mean over heads, own block not among the choices",
}
"""Arm -> what is different."""


def readings_table(results: Results) -> Table:
    """Layer-averaged selection on multi-hop: every reading, both ways to count the context."""
    rows = []
    for arm, title in READINGS.items():
        found = [
            results.values(what, arm=arm, condition=MULTIHOP) for what in ("routed", "context_budget", "chosen_budget")
        ]
        rows.append((title, *(f"{min(values):.3f}–{max(values):.3f}" for values in found)))
    run = results.run()
    return Table(
        name="per-query-readings",
        caption=(
            "Per-query selection, layer-averaged, on multi-hop, under other readings of it: ranges over teachers. The "
            "paper has a context budget of 1.00. Read from outside: the share of blocks that some row outside the "
            "block may read, as the paper describes its budget. Chosen: the share of blocks that some row chose, its "
            "own block counted."
        ),
        columns=("Reading", "Routed", "Read from outside", "Chosen"),
        rows=tuple(rows),
        notes=(
            f"{run.scale.capitalize()} scale; n = {run.counts['examples']} examples per teacher, "
            f"{len(results.coordinates('teacher'))} {MIXTURE} teachers, {run.config['budget']} blocks of "
            f"{run.config['n_blocks']}.",
        ),
    )


WHOLE_CONTEXT = 0.995
"""What prints as 1.00."""


def per_query_claims(results: Results) -> list[Claim]:
    """Selecting per query leaves the whole context resident."""
    n = f"{len(results.coordinates('teacher'))} teachers × {results.run().counts['examples']} examples"
    claims = []
    for protocol, title in (("per_layer", "per layer"), ("layer_averaged", "layer-averaged")):
        found = results.values("context_budget", arm=protocol, condition=MULTIHOP)
        holds = min(found) >= WHOLE_CONTEXT
        claims.append(
            Claim(
                f"Per-query selection, {title}, keeps a context budget of 1.00",
                "1.00",
                f"{min(found):.3f} to {max(found):.3f}",
                n,
                HOLDS if holds else FAILS,
                NOT_TESTED if holds else other_readings(results, protocol),
            )
        )
    return claims


def other_readings(results: Results, protocol: str) -> str:
    """What the context budget is when the protocol is read in another way."""
    of_arms = {arm: results.select("context_budget", arm=arm, condition=MULTIHOP)["value"] for arm in READINGS}
    varied = [f"{READINGS[arm]} {min(v):.3f} to {max(v):.3f}" for arm, v in of_arms.items() if arm != protocol]
    counted = results.values("chosen_budget", arm=protocol, condition=MULTIHOP)
    return "; ".join(
        (*varied, f"a block that only its own rows chose counted too {min(counted):.3f} to {max(counted):.3f}")
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=53,
    jobs=jobs,
    teachers=every_teacher(MIXTURE),
    reports=(
        Report("tab:per-query", "chains", per_query_table),
        Report("Per-query selection under other readings", "chains", readings_table, beyond=True),
    ),
    claims=per_query_claims,
    choices=(
        Choice(
            "Heads of per-query attention",
            "the maximum, then each layer for itself or the mean over layers; a row's own block is among those it "
            "chooses from, and stays readable where it is not chosen",
        ),
        Choice(
            "The causal row of `tab:per-query`", "the ablation ranking, whose numbers it has, not the annotated chain"
        ),
        Choice(
            "Row and context budget",
            "measured on the masks: the largest share of blocks a row reads outside its own; the share of blocks that "
            "some row outside reads at some layer",
        ),
    ),
)

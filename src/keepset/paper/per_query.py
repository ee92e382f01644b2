"""Does selecting per query prune? The four protocols of ``interventions.protocols`` at three blocks a row.

Gives ``tab:per-query``. One result per five-task teacher, on the examples of the oracles: the protocols choose from the
same attention.

    attention_max, attention_mean   global: the three blocks the answer row attends to most, mean over layers
    per_layer                       every row of every layer keeps the three it attends to most there
    layer_averaged                  every row keeps the three it attends to most in the mean over layers
    dense_prefill                   only the answer row is restricted, to the blocks of ``attention_max``
    causal                          global: the three blocks whose hiding costs the answer most

A row chooses among blocks at or before it, its own among them, since it attends to no others.
"""

import time
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import Span
from keepset.interventions import answer_logits, dense_prefill
from keepset.models.masks import block_numbers, may_read
from keepset.paper.claim import FAILS, HOLDS, Claim
from keepset.paper.experiment import Choice, Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, beside, spread
from keepset.paper.teachers import VALUE_FIRST, VALUE_FIRST_NOTE, teacher_seeds
from keepset.readouts import answer_attention, pool_attention
from keepset.readouts.layers import Layer, block_sums, visit_layers

NAME = "per_query"
MIXTURE = VALUE_FIRST
CONDITIONS = ("multihop", "unique")
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
    rows = row_attention(subject.model, tokens, blocks)  # (L, B, T, N)
    return {
        "attention_max": attention_max.unsqueeze(1),
        "attention_mean": attention_mean.unsqueeze(1),
        "per_layer": top_rows(rows),
        "layer_averaged": top_rows(rows.mean(0)),
        "dense_prefill": dense_prefill(attention_max, tokens.shape[1]),
        "causal": top_blocks(subject.effects.drop, BUDGET).unsqueeze(1),
    }


def row_attention(model: PreTrainedModel, tokens: Tensor, blocks: Sequence[Span]) -> Tensor:
    """(L, B, T, N) attention of every row of every layer over blocks, maximum over heads."""
    layers: list[Tensor] = []
    n_tokens = tokens.shape[1]

    def read(layer: Layer) -> None:
        looked = torch.zeros(len(tokens), n_tokens, len(blocks))
        for piece, attention in layer.chunks(Span(0, n_tokens)):
            padded = torch.nn.functional.pad(attention, (0, n_tokens - piece.stop))
            looked[:, piece.start : piece.stop] = block_sums(padded, blocks).amax(1).cpu()
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
    row_budgets, context_budgets = [], []
    for rows in torch.arange(subject.n).split(CHUNK):
        table = visible[..., rows, :, :]
        logits = answer_logits(subject.model, tokens[rows], subject.batch.blocks, table)
        right += int((logits.argmax(-1) == answers[rows]).sum())
        read = blocks_read(table, subject.batch.blocks, tokens.shape[1])  # (L, B, T, N)
        row_budgets.append(read.float().mean(-1).amax((0, 2)))
        context_budgets.append(read.any(2).any(0).float().mean(-1))
    at: At = {"condition": subject.condition, "arm": protocol}
    return [
        share("routed", right, subject.n, **at),
        Metric(what="row_budget", at=at, value=float(torch.cat(row_budgets).mean()), n=subject.n),
        Metric(what="context_budget", at=at, value=float(torch.cat(context_budgets).mean()), n=subject.n),
    ]


def blocks_read(visible: Tensor, blocks: Sequence[Span], n_tokens: int) -> Tensor:
    """(L, B, T, N) bool: the blocks other than its own that a row may read any token of.

    The row budget is the largest share of them a row has at one layer; the context budget is the share of blocks that
    some row outside has at some layer. A block that only its own rows read gives the rest of the pass nothing.
    """
    numbers = block_numbers(blocks, n_tokens)
    allowed = may_read(numbers, visible if visible.ndim == 4 else visible.unsqueeze(0))  # (L, B, T, T)
    own = numbers.unsqueeze(1) == torch.arange(len(blocks))
    return torch.stack([allowed[..., span.start : span.stop].any(-1) for span in blocks], dim=-1) & ~own


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
            VALUE_FIRST_NOTE,
        ),
    )


WHOLE_CONTEXT = 0.995
"""What prints as 1.00."""


def per_query_claims(results: Results) -> list[Claim]:
    """Selecting per query leaves the whole context resident."""
    n = f"{len(results.coordinates('teacher'))} teachers × {results.run().counts['examples']} examples"
    claims = []
    for protocol, title in (("per_layer", "per layer"), ("layer_averaged", "layer-averaged")):
        found = results.values("context_budget", arm=protocol, condition="multihop")
        claims.append(
            Claim(
                f"Per-query selection, {title}, keeps a context budget of 1.00",
                "1.00",
                f"{min(found):.3f} to {max(found):.3f}",
                n,
                HOLDS if min(found) >= WHOLE_CONTEXT else FAILS,
            )
        )
    return claims


EXPERIMENT = Experiment(
    name=NAME,
    place=53,
    jobs=jobs,
    reports=(Report("tab:per-query", "chains", per_query_table),),
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

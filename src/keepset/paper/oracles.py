"""Routing on labels directly, with no learned router: what each selection of blocks is worth on multi-hop.

Gives ``tab:budget-readouts``, the oracle rows of ``tab:chain``, and how often a selection keeps an obsolete write
(last column of ``tab:trace-supervision``). One result per teacher: the readouts share one forward, and
selections that agree on an example share its routed one.
"""

import time
from functools import partial

from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.labels import task_evidence, top_k
from keepset.paper.chain_routers import CHAIN
from keepset.paper.dense import evaluation_seed
from keepset.paper.experiment import Difference, Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import family_scores, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import share
from keepset.paper.table import Table, beside, spread
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, every_teacher, teacher_seeds
from keepset.readouts import answer_attention, attention_rollout, backward_trace, pool_attention

NAME = "oracles"
MIXTURE = FIVE_TASK
CONDITION = MULTIHOP
BUDGETS = (3, 4, 5, 8)
"""Blocks; the paper's, of 32 there."""
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"{NAME}/{MIXTURE}-{seed}": partial(oracles, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def oracles(scale: str, seed: int) -> RunResult:
    """Every selection at every budget on one teacher; obsolete writes among the first three blocks of a selection."""
    started = time.monotonic()
    subject = Labelled.load(scale, MIXTURE, seed, CONDITION, EXAMPLES[scale])
    batch, n = subject.batch, subject.n
    probe = routed_probe(subject.model, batch)
    here = partial(share, "routed", n=n, condition=CONDITION)
    metrics: list[Metric] = [here(int(subject.effects.clean_correct.sum()), arm="dense")]
    for arm, scores in selections(subject).items():
        for k in BUDGETS:
            metrics.append(here(int(routed_correct(probe, top_blocks(scores, k)).sum()), arm=arm, k=k))
    layers = layer_scores(subject.model, batch)
    for layer, scores in enumerate(layers):
        right = routed_correct(probe, top_blocks(scores, CHAIN))
        metrics.append(here(int(right.sum()), arm="attention_layer", layer=layer, k=CHAIN))
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": seed},
        config={
            "mixture": MIXTURE,
            "seed": seed,
            "condition": CONDITION,
            "budgets": list(BUDGETS),
            "layers": len(layers),
            "n_blocks": len(batch.blocks),
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": n},
        metrics=[*metrics, *obsolete(Labelled(subject.model, subject.config, "latest_write", n))],
    )


def selections(subject: Labelled) -> dict[str, Tensor]:
    """Arm -> (B, N): every way to score blocks that needs no router."""
    batch = subject.batch
    return readout_scores(subject.model, batch) | {
        "ablation": subject.effects.drop,
        "annotated": family_scores(batch.family),
        "random": random_scores(subject.n, len(batch.blocks), evaluation_seed(subject.condition)),
    }


def layer_scores(model: PreTrainedModel, batch: ExampleBatch) -> list[Tensor]:
    """(B, N) per layer: answer-position attention of that layer alone, maximum over heads."""
    attention = answer_attention(model, batch.first_query(), batch.blocks)  # (B, L, H, N)
    return [pool_attention(attention, heads="max", layer=layer) for layer in range(attention.shape[1])]


def readout_scores(model: PreTrainedModel, batch: ExampleBatch) -> dict[str, Tensor]:
    """Arm -> (B, N): the readouts of one forward."""
    tokens, blocks = batch.first_query(), batch.blocks
    attention = answer_attention(model, tokens, blocks)
    return {
        "attention_max": pool_attention(attention, heads="max"),
        "attention_mean": pool_attention(attention, heads="mean"),
        "rollout": attention_rollout(model, tokens, blocks),
        "trace": backward_trace(model, tokens, blocks),
    }


def obsolete(subject: Labelled) -> list[Metric]:
    """The share of latest-write examples whose selected set holds a superseded write."""
    sets = {name: top_k(scores, CHAIN) for name, scores in readout_scores(subject.model, subject.batch).items()}
    sets["annotated"] = task_evidence(subject.effects.probe.examples, len(subject.batch.blocks))
    return [
        share("obsolete", int((kept & subject.obsolete).any(1).sum()), subject.n, condition=subject.condition, arm=arm)
        for arm, kept in sets.items()
    ]


SELECTIONS = {
    "attention_max": ("Attention, answer position (max heads)", ("0.41–0.87", "0.30–0.96", "0.24–0.98", "0.26–1.00")),
    "attention_mean": ("Attention, answer position (mean heads)", ("0.48–0.98", "0.34–0.98", "0.29–0.99", "0.28–1.00")),
    "rollout": ("Attention rollout", ("0.24–0.99", "0.31–0.99", "0.57–0.99", "0.94–1.00")),
    "trace": ("Attention, backward trace", ("0.90–0.99", "0.96–0.99", "0.95–1.00", "0.97–1.00")),
    "ablation": ("Causal, ablation ranking", ("0.98–0.99", "0.98–1.00", "0.98–1.00", "0.98–1.00")),
    "annotated": ("Annotated chain, padded", ("0.99–1.00", "0.98–1.00", "0.98–1.00", "0.99–1.00")),
    "random": ("Random", ("0.04–0.08", "0.03–0.06", "0.05–0.07", "0.05–0.08")),
}
"""Arm -> title, the paper's range at each budget."""


def budget_readouts_table(results: Results) -> Table:
    """``tab:budget-readouts``: every selection at four budgets."""
    run = results.run()
    n_blocks = run.config["n_blocks"]
    rows = []
    for arm, (title, papers) in SELECTIONS.items():
        found = (spread(results.values("routed", arm=arm, k=k)) for k in BUDGETS)
        rows.append((title, *beside(found, papers)))
    *first, last = map(str, BUDGETS)
    return Table(
        name="tab-budget-readouts",
        caption=(
            f"Multi-hop routed on labels directly, ranges over teachers, at {', '.join(first)} and {last} of "
            f"{n_blocks} blocks (the paper's, of 32 blocks, in brackets)."
        ),
        columns=("Selection", *(f"k = {k} ({k / n_blocks:.2f})" for k in BUDGETS)),
        rows=tuple(rows),
        notes=(
            f"{len(results.coordinates('teacher'))} {MIXTURE} teachers, {run.counts['examples']} examples each, "
            f"{run.scale} scale",
        ),
    )


def teacher_attention(results: Results) -> str:
    """The answer row's attention as the selection, heads pooled either way."""
    return spread(
        [v for arm in ("attention_max", "attention_mean") for v in results.values("routed", arm=arm, k=CHAIN)]
    )


def best_layer(results: Results) -> str:
    """Of every teacher the layer whose attention is the best selection: post hoc, an upper bound."""
    teachers = results.coordinates("teacher")
    return spread([max(results.values("routed", arm="attention_layer", k=CHAIN, teacher=t)) for t in teachers])


EXPERIMENT = Experiment(
    name=NAME,
    place=38,
    jobs=jobs,
    teachers=every_teacher(MIXTURE),
    reports=(Report("tab:budget-readouts", "chains", budget_readouts_table),),
    differences=(
        Difference(
            "tab:chain, teacher attention as an oracle",
            "0.41–0.98",
            teacher_attention,
            "these teachers all leave the middle record out, as some of the paper's do; smaller ones differ as the "
            "paper's do (training-problem), and in contexts of 8 records so do some of these (shorter-chains). Whether "
            "training as long as the paper's would part them, or its six layers: not tested",
        ),
        Difference(
            "tab:chain, attention of the best layer as an oracle",
            "0.21–0.55",
            best_layer,
            "a middle record that no layer of the answer row looks at cannot be had from one: see the line above",
        ),
    ),
)

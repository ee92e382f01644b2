"""Routing on labels directly, with no learned router: what each selection of blocks is worth on multi-hop.

Gives ``tab:budget-readouts``, the oracle rows of ``tab:chain``, and how often a selection keeps an obsolete write
(last column of ``tab:trace-supervision``). One result per five-task teacher.
"""

import time
from functools import partial

from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.labels import task_evidence, top_k
from keepset.paper.dense import evaluation_seed
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.result import Metric, RunResult
from keepset.paper.routed import family_scores, random_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import proportion
from keepset.paper.teachers import teacher_seeds
from keepset.readouts import answer_attention, attention_rollout, backward_trace, pool_attention

EXPERIMENT = "oracles"
MIXTURE = "five-task"
CONDITION = "multihop"
BUDGETS = (3, 4, 5, 8)
"""Blocks; the paper's, of 32 there."""
CHAIN = 3
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}


def jobs(scale: str) -> Jobs:
    """One result per five-task teacher."""
    return {f"oracles/{MIXTURE}-{seed}": partial(oracles, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def oracles(scale: str, seed: int) -> RunResult:
    """Every selection at every budget on one teacher; obsolete writes among the first three blocks of a selection."""
    started = time.monotonic()
    subject = Labelled.load(scale, MIXTURE, seed, CONDITION, EXAMPLES[scale])
    batch, n = subject.batch, subject.n
    probe = routed_probe(subject.model, batch)
    selections = readout_scores(subject.model, batch) | {
        "ablation": subject.effects.drop,
        "annotated": family_scores(batch.family),
        "random": random_scores(n, len(batch.blocks), evaluation_seed(CONDITION)),
    }
    metrics: list[Metric] = [proportion("dense", int(subject.effects.clean_correct.sum()), n)]
    for name, scores in selections.items():
        for k in BUDGETS:
            right = routed_correct(probe, top_blocks(scores, k))
            metrics.append(proportion(f"{name}_k{k}", int(right.sum()), n))
    attention = answer_attention(subject.model, batch.first_query(), batch.blocks)  # (B, L, H, N)
    for layer in range(attention.shape[1]):
        right = routed_correct(probe, top_blocks(pool_attention(attention, heads="max", layer=layer), CHAIN))
        metrics.append(proportion(f"attention_layer{layer}_k{CHAIN}", int(right.sum()), n))
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "mixture": MIXTURE,
            "seed": seed,
            "condition": CONDITION,
            "budgets": list(BUDGETS),
            "layers": attention.shape[1],
            "n_blocks": len(batch.blocks),
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": n},
        metrics=[*metrics, *obsolete(Labelled(subject.model, subject.config, "latest_write", n))],
    )


def readout_scores(model: PreTrainedModel, batch: ExampleBatch) -> dict[str, Tensor]:
    """Name -> (B, N): the readouts of one forward."""
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
        proportion(f"{name}_obsolete", int((kept & subject.obsolete).any(1).sum()), subject.n)
        for name, kept in sets.items()
    ]

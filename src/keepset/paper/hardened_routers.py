"""Chain routers on hardened chains, by batch and depth: what it takes to keep a shuffled chain, and one of three hops.

They learn from annotations, so no teacher has a part: what is measured is which records they keep. Two layers are the
paper's; four can find the four records of a three-hop chain one after another. One result per batch and depth.
"""

import time
from dataclasses import replace
from functools import partial

import torch

from keepset.paper.chain_routers import BATCH, CHAIN, EXAMPLES, ROUTER_SEEDS, STEPS, TABLE, training_note
from keepset.paper.claim import Claim, every_claim
from keepset.paper.dense import evaluation_batch
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks, chain_recall, top_blocks
from keepset.paper.router_tables import make_table
from keepset.paper.router_training import fit_arm, training_seeds
from keepset.paper.statistics import share
from keepset.paper.table import Table, bracket
from keepset.paper.testbed.routers import ChainRouter, DeepChainRouter, score_blocks
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.routers import Coverage, table_stream

NAME = "hardened_routers"
MIXTURE = "any-order"
HARDENED, THREE_HOPS = "multihop_hardened", "multihop_3hop"
BUDGETS = {HARDENED: CHAIN, THREE_HOPS: CHAIN + 1}
DEPTHS = {router.kind: router.depth for router in (ChainRouter, DeepChainRouter)}
"""Router -> its layers over the summaries of blocks."""
DOUBLE = 2
"""How much larger than the tables' the other batch is: at the small scale, the paper's 64."""


def jobs(scale: str) -> Jobs:
    """One result per router and batch."""
    return {
        f"{NAME}/{kind}-{factor * BATCH[scale]}": partial(keep, scale, kind, factor * BATCH[scale])
        for kind in DEPTHS
        for factor in (1, DOUBLE)
    }


def keep(scale: str, kind: str, batch_size: int) -> RunResult:
    """Trains routers of one kind and batch on annotated hardened chains; which records do they keep?"""
    started = time.monotonic()
    config = find_preset(scale)(MIXTURE, 0)
    table = make_table(config, {HARDENED: 1.0}, TABLE[scale], lambda batch: {"causal": batch.family})
    stream = table_stream(table.tokens, table.targets, run=0, batch=batch_size)
    routers = fit_arm(kind, config, "causal", Coverage(), stream, ROUTER_SEEDS[scale], STEPS[scale])
    metrics: list[Metric] = []
    for condition, k in BUDGETS.items():
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        chain = chain_blocks(batch)
        for seed, router in enumerate(routers):
            here = partial(share, n=len(batch), condition=condition, k=k, router_seed=seed)
            with torch.no_grad():
                recall = chain_recall(top_blocks(score_blocks(router, batch), k), chain)
            metrics.append(here("chain_recall", int(recall.all(1).sum())))
            metrics += [here("recall", int(held.sum()), record=i) for i, held in enumerate(recall.unbind(1))]
    return run_result(
        NAME,
        scale,
        started,
        at={"router": kind, "batch": batch_size},
        config={"mixture": MIXTURE, "router": kind, "router_seeds": ROUTER_SEEDS[scale], "conditions": BUDGETS},
        seeds=training_seeds(0),
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale], "batch": batch_size},
        metrics=metrics,
    )


def routers_table(results: Results) -> Table:
    """Whole chains kept, by batch and depth; then each record of a three-hop chain."""
    rows = []
    for run in results.runs.values():
        at = {"router": run.at["router"], "batch": run.at["batch"]}
        whole = (bracket(results.values("chain_recall", condition=condition, **at)) for condition in BUDGETS)
        records = (
            f"{min(found):.2f}–{max(found):.2f}"
            for found in (
                results.values("recall", condition=THREE_HOPS, record=i, **at) for i in range(BUDGETS[THREE_HOPS])
            )
        )
        rows.append((f"{DEPTHS[str(at['router'])]} layers, batch {at['batch']}", *whole, " / ".join(records)))
    return Table(
        name="hardened-routers",
        caption=(
            "Chain routers trained on annotated hardened chains of two hops: how often the whole chain is among the "
            "blocks kept (three of a hardened context; four of a three-hop one, which no router saw), mean over router "
            "seeds with the range; and how often each record of a three-hop chain is, range over seeds. Paper, two "
            "layers: 0.997–1.00 on three hops."
        ),
        columns=("Router", "Hardened, two hops", "Three hops", "first / second / third pointer / value of three hops"),
        rows=tuple(rows),
        notes=(training_note(results.run(batch=min(results.coordinates("batch")), router=ChainRouter.kind)),),
    )


BAR = 0.95


def router_claims(results: Results) -> list[Claim]:
    """Each router for itself keeps the whole chain: of the two hops it learned, and of three."""

    def found(kind: str, batch: int, condition: str) -> list[Metric]:
        seeds = range(results.run(router=kind, batch=batch).config["router_seeds"])
        return [
            results.metric("chain_recall", router=kind, batch=batch, condition=condition, router_seed=seed)
            for seed in seeds
        ]

    settings = [(str(run.at["router"]), int(run.at["batch"])) for run in results.runs.values()]
    shown = settings[0]
    claims = []
    for condition, title, paper in (
        (HARDENED, "Hardened chains: the causal router keeps the whole chain", "0.99 to 1.00 (routed)"),
        (THREE_HOPS, "Three hops, never trained: the causal router keeps the whole chain", "0.997 to 1.00"),
    ):
        routers = found(*shown, condition)
        claim = every_claim(
            f"{title} ({BAR} or more)", paper, routers, BAR, f"{len(routers)} routers × {routers[0].n} examples"
        )
        varied = "; ".join(
            f"{DEPTHS[kind]} layers, batch {batch}: {bracket([m.value for m in found(kind, batch, condition)])}"
            for kind, batch in settings
            if (kind, batch) != shown
        )
        claims.append(replace(claim, own_choice=varied or claim.own_choice))
    return claims


EXPERIMENT = Experiment(
    name=NAME,
    place=42,
    jobs=jobs,
    reports=(Report("Routers of hardened chains, by batch and depth", "chains", routers_table, beyond=True),),
    claims=router_claims,
)

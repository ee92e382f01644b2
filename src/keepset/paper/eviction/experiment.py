"""Long-context eviction (appendix "Block eviction at pretrained scale") at lengths a CPU can run.

``tab:qa``, ``tab:pq8k``, ``tab:pq16k``, ``tab:pq32k`` (at our lengths), ``tab:pq-staleany``, ``tab:pq-seeds``,
``tab:restkv`` and ``fig:eviction-scale``; at scale ``paper`` also ``tab:pq3b8k`` and its like and
``tab:pq-staleany-fs``. ``run`` makes the results, ``tables``, ``figure`` and ``orderings`` say what came out,
``paper_numbers`` has the paper's.
"""

from collections.abc import Callable
from functools import partial

from keepset.paper.bench.models import short_name
from keepset.paper.eviction.columns import CAUSAL, CONTROL, MODES, ORACLE, Arm
from keepset.paper.eviction.figure import scale_figure
from keepset.paper.eviction.orderings import eviction_claims, eviction_orderings
from keepset.paper.eviction.paper_numbers import H2O, MAIN_BUDGET, SNAPKV
from keepset.paper.eviction.pool import pooled
from keepset.paper.eviction.run import NAME, SETTINGS, jobs
from keepset.paper.eviction.tables import (
    OWN_TABLES,
    any_query_fs_tables,
    any_query_tables,
    dense_tables,
    evidence_tables,
    pre_query_tables,
    pre_query_tables_of,
    query_aware_tables,
    restkv_tables,
    seeds_tables,
)
from keepset.paper.experiment import Choice, Difference, Experiment, Report
from keepset.paper.results import Results


def evicted(times: int, condition: str, *arms: Arm, regime: str = "pre_query") -> Callable[[Results], str]:
    """Shares still answered by the largest model at a multiple of the training length, mode global, main budget."""

    def here(results: Results) -> str:
        setting = SETTINGS[results.run().scale][-1]
        models = (setting.short_name, short_name(setting.model, None))  # rounded or not
        found = [pool for pool in pooled(results) if pool.model in models and pool.times == times]
        found = [pool for pool in found if pool.conditions([condition])]
        if not found:
            return f"not run at {times} × the routers' training length"
        pool = found[-1]  # of two protocols the later one
        shares = [pool.share(condition, regime, MODES[0], arm, MAIN_BUDGET) for arm in arms]
        there = [share for share in shares if share]
        if len(there) < len(arms):
            return f"not run at {pool.length:,} tokens"
        return f"{', '.join(f'{share.value:.2f}' for share in there)} at {pool.length:,} tokens (n = {there[0].n})"

    return here


DIFFERENCES = (
    Difference(
        "tab:qa, multikey at 8K: causal, SnapKV",
        "0.77, 0.88",
        evicted(2, "multikey", CAUSAL, SNAPKV, regime="query_aware"),
        "it keeps needles, not the one asked for, and three blocks hold few of them; whether 48 documents per task are "
        "too few to learn which key the question names is not tested on this model (on lines, twelve are enough for "
        "SmolLM2: eviction-curve)",
    ),
    Difference(
        "tab:pq8k, multikey at 10 %: causal, H2O",
        "0.84, 0.11",
        evicted(2, "multikey", CAUSAL, H2O),
        "a tenth of 1,024 tokens is three blocks of 32, and four needles, some in two, need more: without the "
        "question nobody has room (column 'fits 10 %' of eviction-dense)",
    ),
    Difference(
        "tab:pq16k, multikey at 10 %: causal, H2O",
        "0.83, 0.16",
        evicted(4, "multikey", CAUSAL, H2O),
        "the same ordering on few documents; KVzip, which the paper does not run, keeps the needles too",
    ),
    Difference(
        "tab:pq8k, register log at 10 %: causal, H2O, evidence set",
        "0.93, 0.22, 0.13",
        evicted(2, "register_log", CAUSAL, H2O, ORACLE),
        "the same ordering on few documents",
    ),
    Difference(
        "tab:pq-staleany at 10 %: causal, H2O",
        "0.34, 0.25",
        evicted(2, CONTROL, CAUSAL, H2O),
        "three blocks hold at most three registers. A correction is always current, an earlier write only if nothing "
        "corrects it, so the router is surest of corrections and keeps them first; not tested",
    ),
)

CHOICES = (
    Choice(
        "The register log's text",
        '"Register R17 is set to 4821.", corrected by "Register R17 takes the value 9034.", words drawn from one set '
        'for both (in results with 32 tokens a block a correction says "now"); sixteen registers at random places, '
        "fewer below 2,048 tokens (one for every 128)",
    ),
    Choice(
        '"All needles" of multikey',
        "any of the four keys may be asked; every line a needle is a task of its own (`multikey_lines`)",
    ),
    Choice("Evidence of a needle", "the blocks from its key to its value"),
    Choice("Which mode the eviction appendix uses", "not said; results say theirs: `global`, `post_prefill`, `text`"),
    Choice(
        "Blocks of the eviction benchmark",
        "lines, which cut no fact in two; results of an earlier protocol have 32 tokens a block and say so",
    ),
    Choice(
        "The first block under eviction",
        "not protected in the benchmark: the chat prefix is visible and is the sink",
    ),
    Choice(
        "MomentKV's statistic",
        "attention received times one minus the cosine of the value with the context's mean value",
    ),
)

EXPERIMENT = Experiment(
    name=NAME,
    place=70,
    jobs=jobs,
    reports=(
        Report("tab:qa", "eviction", query_aware_tables),
        Report("tab:pq8k, tab:pq16k, tab:pq32k", "eviction", pre_query_tables),
        Report("tab:pq-staleany", "eviction", any_query_tables),
        *(Report(label, "eviction", partial(pre_query_tables_of, model)) for model, label in OWN_TABLES.items()),
        Report("tab:pq-staleany-fs", "eviction", any_query_fs_tables),
        Report("tab:pq-seeds", "eviction", seeds_tables),
        Report("tab:restkv", "eviction", restkv_tables),
        Report("fig:eviction-scale", "eviction", scale_figure),
        Report("Who is ahead of whom under eviction", "eviction", eviction_orderings, beyond=True),
        Report("What eviction is measured on", "eviction", dense_tables, beyond=True),
        Report("Evidence kept under eviction", "eviction", evidence_tables, beyond=True),
    ),
    claims=eviction_claims,
    differences=DIFFERENCES,
    choices=CHOICES,
)

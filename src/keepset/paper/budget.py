"""How many blocks an answer takes: the annotated blocks first, then the rest, at every budget (``fig:budget``).

Both groups in position order. The selection upper-bounds any router. One result per five-task teacher.
"""

import time
from functools import partial
from statistics import fmean

from keepset.figures import COLOURS, new_figure, svg
from keepset.paper.claim import FAILS, HOLDS, Claim, interval
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Difference, Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import family_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.statistics import bounds, pooled, share
from keepset.paper.table import Figure, Table, bracket
from keepset.paper.teachers import VALUE_FIRST, VALUE_FIRST_NOTE, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.teacher import load_teacher

NAME = "budget"
MIXTURE = VALUE_FIRST
CONDITIONS = {"unique": "Unique retrieval", "multihop": "Multi-hop", "aggregation": "Aggregation"}
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {f"{NAME}/{MIXTURE}-{seed}": partial(sweep, scale, seed) for seed in teacher_seeds(scale, MIXTURE)}


def sweep(scale: str, seed: int) -> RunResult:
    """Routed accuracy of one teacher with 1 to N blocks."""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, MIXTURE, seed))
    metrics: list[Metric] = []
    for condition in CONDITIONS:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        probe = routed_probe(model, batch)
        scores = family_scores(batch.family)
        for k in range(1, len(batch.blocks) + 1):
            right = routed_correct(probe, top_blocks(scores, k))
            metrics.append(share("routed", int(right.sum()), len(batch), condition=condition, k=k))
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": seed, "arm": "annotated"},
        config={"mixture": MIXTURE, "seed": seed, "conditions": list(CONDITIONS), "n_blocks": config.n_blocks},
        seeds={"evaluation": evaluation_seed(next(iter(CONDITIONS)))},
        counts={"examples": EXAMPLES[scale]},
        metrics=metrics,
    )


LINES = {"unique": ("causal", "o-"), "multihop": ("attention", "s--"), "aggregation": ("ablation", "^:")}
"""Condition -> colour, style."""
CONSTANT_ANSWER = 0.2
"""Counts are 1 to 5, uniform."""
SHOWN = (1, 2, 3, 4, 5, 8, 12)
"""Rows of the table; the last two budgets follow."""


def budget_table(results: Results) -> Table:
    """Some budgets: mean over teachers, range over teachers."""
    run = results.run()
    n_blocks = run.config["n_blocks"]
    budgets = (*(k for k in SHOWN if k < n_blocks - 1), n_blocks - 1, n_blocks)
    return Table(
        name="budget",
        caption=(
            "Accuracy against the number of blocks kept, annotated blocks first, both groups in position order: mean "
            "over teachers, range over teachers in brackets. The paper's figure: unique retrieval flat from one block, "
            f"multi-hop up at three, aggregation at chance ({CONSTANT_ANSWER}, the share of a constant answer) until "
            "all blocks."
        ),
        columns=("Blocks kept", *CONDITIONS.values()),
        rows=tuple(
            (str(k), *(bracket(results.values("routed", condition=condition, k=k)) for condition in CONDITIONS))
            for k in budgets
        ),
        notes=(
            f"{run.scale.capitalize()} scale; n = {run.counts['examples']} examples per teacher and task, "
            f"{len(results.coordinates('teacher'))} {MIXTURE} teachers, contexts of {n_blocks} blocks.",
            VALUE_FIRST_NOTE,
        ),
    )


def budget_figure(results: Results) -> Figure:
    """``fig:budget``, every budget: mean over teachers, the range as a band."""
    budgets = list(range(1, results.run().config["n_blocks"] + 1))
    figure = new_figure(width=5.5)
    axes = figure.axes[0]
    for condition, (colour, style) in LINES.items():
        values = [results.values("routed", condition=condition, k=k) for k in budgets]
        axes.plot(budgets, [fmean(v) for v in values], style, color=COLOURS[colour], label=CONDITIONS[condition])
        lows, highs = [min(v) for v in values], [max(v) for v in values]
        axes.fill_between(budgets, lows, highs, color=COLOURS[colour], alpha=0.15, linewidth=0)
    axes.axhline(CONSTANT_ANSWER, color=COLOURS["other"], linewidth=0.8, linestyle="--", label="a constant count")
    axes.set_xlabel("blocks kept")
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1.02)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Figure("fig-budget", svg(figure))


def over_teachers(results: Results, condition: str, k: int) -> Metric:
    """All teachers' answers as one share."""
    teachers = results.coordinates("teacher")
    return pooled("routed", [results.metric("routed", condition=condition, k=k, teacher=t) for t in teachers])


def aggregation_claims(results: Results) -> list[Claim]:
    """Counting cannot be had from a part of the context."""
    n_blocks = results.run().config["n_blocks"]
    shares = {k: over_teachers(results, "aggregation", k) for k in range(1, n_blocks + 1)}
    part = max((k for k in shares if k < n_blocks), key=lambda k: shares[k].value)
    low, _ = bounds(shares[part])
    return [
        Claim(
            f"Aggregation at chance ({CONSTANT_ANSWER}) until the full context",
            f"{CONSTANT_ANSWER}",
            f"best part {interval(shares[part])} at k = {part} of {n_blocks}; full {shares[n_blocks].value:.2f}",
            f"{len(results.coordinates('teacher'))} teachers, {shares[part].n} answers",
            HOLDS if low <= CONSTANT_ANSWER else FAILS,
        )
    ]


def aggregation_from_five(results: Results) -> str:
    return f"{over_teachers(results, 'aggregation', 5).value:.2f} with 5 of {results.run().config['n_blocks']} blocks"


EXPERIMENT = Experiment(
    name=NAME,
    place=52,
    jobs=jobs,
    reports=(Report("fig:budget", "chains", lambda results: (budget_figure(results), budget_table(results))),),
    claims=aggregation_claims,
    differences=(
        Difference(
            "fig:budget, aggregation from five blocks",
            "0.2 through half of the context",
            aggregation_from_five,
            "our teachers learned to count on soft attention over matching records, which other records do not carry; "
            "whether the paper's positions, count range or optimizer make the difference: not tested",
        ),
        Difference(
            "fig:budget, multi-hop below the chain's size",
            "near chance",
            lambda results: f"{over_teachers(results, 'multihop', 2).value:.2f} with 2 blocks",
            "position order keeps the value first here, and a lone value is copied (the paper's own caution); not "
            "tested",
        ),
    ),
)

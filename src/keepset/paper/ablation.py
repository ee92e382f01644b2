"""Is it the label or the loss? Attention and causal labels, each under several losses, on pooling routers.

Gives ``tab:ablation`` and ``tab:app-ablation``: labels of five-task teacher 0, every five-task teacher routed. One
result per label and loss, and one of the dense teachers and random gates.

The budget is a tenth of the blocks, four of 32, and at least three: fewer cannot hold a chain, whatever the router has
learned.
"""

import time
from functools import partial
from statistics import fmean

from torch import Tensor
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.paper.chain_routers import CHAIN
from keepset.paper.claim import Claim, ahead_claim, below, interval, worst
from keepset.paper.experiment import Choice, Difference, Experiment, Jobs, Report, run_result
from keepset.paper.pooling import (
    BUDGET,
    EXAMPLES,
    STEPS,
    TABLE,
    counts,
    over_teachers,
    per_teacher,
    routed_cells,
    routed_metrics,
    settings,
    train_arm,
    unrouted_run,
)
from keepset.paper.result import At, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import budget_blocks, top_blocks
from keepset.paper.router_tables import Label, annotated_family, block_attention
from keepset.paper.router_training import training_seeds
from keepset.paper.table import Table, beside, bracket
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, every_teacher, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.paper.words import in_words
from keepset.readouts import all_position_attention
from keepset.routers import KL, Coverage, Loss, SparseKL
from keepset.routers.targets import acceptable_sets, as_distribution, uniform_over_sets

NAME = "ablation"
MIXTURE = FIVE_TASK
SOURCE = 0
CONDITIONS = {MULTIHOP: "Multi-hop", "unique_4x": "Unique 4×", "latest_write_4x": "Latest 4×"}
ROUTER_SEEDS = {"smoke": 2, "small": 3, "paper": 3}
LABELS = {
    "attention": "Attention (answer position)",
    "all_positions": "Attention (all positions)",
    "causal": "Causal evidence",
}
LOSSES = {"kl": "KL", "sparse_kl": "SparseKL", "coverage": "coverage"}
Arm = tuple[str, str]
"""Label, loss."""
ARMS: tuple[Arm, ...] = (
    ("attention", "kl"),
    ("attention", "sparse_kl"),
    ("attention", "coverage"),
    ("all_positions", "kl"),
    ("causal", "coverage"),
    ("causal", "kl"),
)


def jobs(scale: str) -> Jobs:
    """The dense teachers and random gates, then one result per label and loss."""
    unrouted = partial(unrouted_run, NAME, scale, MIXTURE, tuple(CONDITIONS), fewest=CHAIN)
    found: Jobs = {"ablation/unrouted": unrouted}
    for label, loss in ARMS:
        found[f"ablation/{label}-{loss}"] = partial(ablate, scale, label, loss)
    return found


def ablate(scale: str, label: str, loss: str) -> RunResult:
    """One label under one loss; every five-task teacher routed on every condition."""
    started = time.monotonic()
    _, config = load_teacher(teacher_folder(scale, MIXTURE, SOURCE))
    supervision = supervisions(max(CHAIN, budget_blocks(BUDGET, config.n_blocks)))[label, loss]
    routers = train_arm(scale, MIXTURE, SOURCE, *supervision, ROUTER_SEEDS[scale], STEPS[scale])
    teachers = teacher_seeds(scale, MIXTURE)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "source": SOURCE, "label": label, "loss": loss},
        config=settings(scale, MIXTURE, teachers, CONDITIONS, fewest=CHAIN)
        | {"router_seeds": ROUTER_SEEDS[scale], "router": "pooling"},
        seeds=training_seeds(SOURCE),
        counts={"examples": EXAMPLES[scale], "table": TABLE[scale], "steps": STEPS[scale]},
        metrics=routed_metrics(scale, MIXTURE, teachers, CONDITIONS, routers, fewest=CHAIN),
    )


def supervisions(k: int) -> dict[Arm, tuple[Loss, Label]]:
    """Loss and target of every arm, for a budget of ``k`` blocks at the training length."""
    return {
        ("attention", "kl"): (KL(), block_attention),
        ("attention", "sparse_kl"): (SparseKL(k), block_attention),
        ("attention", "coverage"): (Coverage(), partial(most_attended, k=k)),
        ("all_positions", "kl"): (KL(), all_positions),
        ("causal", "coverage"): (Coverage(), annotated_family),
        ("causal", "kl"): (KL(), even_over_family),
    }


def all_positions(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, N) attention over blocks from every position and layer."""
    return as_distribution(all_position_attention(model, batch.first_query(), batch.blocks))


def most_attended(model: PreTrainedModel, batch: ExampleBatch, k: int) -> Tensor:
    """(B, 1, N) bool: the k most attended blocks as the one acceptable set."""
    return acceptable_sets(top_blocks(block_attention(model, batch), k))


def even_over_family(model: PreTrainedModel, batch: ExampleBatch) -> Tensor:
    """(B, N) even over the annotated sets and inside each.

    The sets of one example are disjoint and of one size in every task, so it is also even over their union.
    """
    return uniform_over_sets(batch.family)


PAPER: dict[Arm | str, tuple[str, str, str]] = {
    ("attention", "kl"): ("0.10", "0.64", "0.78"),
    ("attention", "sparse_kl"): ("0.07", "0.61", "0.76"),
    ("attention", "coverage"): ("0.10", "0.66", "0.77"),
    ("all_positions", "kl"): ("0.01", "0.09", "0.01"),
    ("causal", "coverage"): ("0.09", "0.74", "0.81"),
    ("causal", "kl"): ("0.09", "0.70", "0.79"),
    "random": ("0.04", "0.10", "0.07"),
}
PAPER_RANGES: dict[Arm | str, tuple[str, str, str]] = {
    "dense": ("0.04–1.00", "0.09–0.30", "0.10–0.40"),
    ("attention", "kl"): ("0.06–0.12", "0.53–0.72", "0.66–0.83"),
    ("attention", "sparse_kl"): ("", "", ""),
    ("attention", "coverage"): ("0.04–0.10", "0.52–0.74", "0.63–0.83"),
    ("all_positions", "kl"): ("0.01–0.02", "0.07–0.09", "0.00–0.02"),
    ("causal", "coverage"): ("0.03–0.09", "0.68–0.78", "0.70–0.88"),
    ("causal", "kl"): ("0.02–0.10", "0.63–0.75", "0.67–0.83"),
    "random": ("0.02–0.05", "0.10–0.11", "0.06–0.07"),
}
"""Over the paper's five teachers."""


def place(arm: Arm | str) -> At:
    """The coordinates of an arm."""
    return {"arm": arm} if isinstance(arm, str) else {"label": arm[0], "loss": arm[1]}


def title(arm: Arm | str) -> tuple[str, ...]:
    return (arm,) if isinstance(arm, str) else (LABELS[arm[0]], LOSSES[arm[1]])


def ablation_table(results: Results) -> Table:
    """Label by loss: mean over teachers and router seeds, with the range over teachers."""
    found = {
        arm: [bracket(per_teacher(results, condition, **place(arm))) for condition in CONDITIONS]
        for arm in PAPER_RANGES
    }
    with_papers = {arm: beside(found[arm], papers) for arm, papers in PAPER.items()}
    return Table(
        name="tab-ablation",
        caption=(
            "Label type against loss form for pooling routers trained on the labels of five-task teacher 0: mean over "
            "teachers and router seeds, range over teachers in square brackets, the paper's mean in round ones. "
            "SparseKL restricts the divergence to the router's own top blocks."
        ),
        columns=("Label", "Loss", *CONDITIONS.values()),
        rows=(
            *((*title(arm), *with_papers[arm]) for arm in ARMS),
            (),
            ("Random gates", "", *with_papers["random"]),
            ("Dense teacher", "", *found["dense"]),
        ),
        notes=(counts(results), budget(results)),
    )


def ablation_per_teacher_table(results: Results) -> Table:
    """Every arm on every teacher."""
    rows: list[tuple[str, ...]] = []
    for column, (condition, heading) in enumerate(CONDITIONS.items()):
        if rows:
            rows.append(())
        for arm, ranges in PAPER_RANGES.items():
            values = per_teacher(results, condition, **place(arm))
            rows.append((heading, ", ".join(title(arm)), *(f"{value:.2f}" for value in values), ranges[column]))
    return Table(
        name="tab-app-ablation",
        caption=(
            "The label-by-loss ablation per five-task teacher, labels of teacher 0, mean over router seeds. Last "
            "column: the range over the paper's five teachers, one of which never learned multi-hop; it has no row "
            "for SparseKL."
        ),
        columns=("Condition", "Arm", *(f"seed {teacher}" for teacher in results.coordinates("teacher")), "paper"),
        rows=tuple(rows),
        notes=(counts(results), budget(results)),
    )


def budget(results: Results) -> str:
    config = results.run().config
    blocks, fewest = config["blocks"][MULTIHOP], config["fewest_blocks"]
    tenth = budget_blocks(config["budget"], blocks)
    if tenth >= fewest:
        return f"Kept: 10 % of the blocks, {in_words(tenth)} of {blocks} on multi-hop."
    return (
        f"Kept: 10 % of the blocks, at least {fewest}, because 10 % of the {blocks} blocks of multi-hop are "
        f"{in_words(tenth)} and a chain has {in_words(fewest)} records; the paper keeps four of 32 there."
    )


def label_claims(results: Results) -> list[Claim]:
    """Under length shift causal labels lead under both losses; on chains no label helps a pooling router."""
    claims = []
    for condition, heading in CONDITIONS.items():
        if not condition.endswith("4x"):
            continue
        column = list(CONDITIONS).index(condition)
        for loss, title in (("coverage", "coverage"), ("kl", "KL")):
            causal, attention = (
                routed_cells(results, condition, label=label, loss=loss) for label in ("causal", "attention")
            )
            papers = [float(PAPER[label, loss][column]) for label in ("causal", "attention")]
            claims.append(
                ahead_claim(
                    f"{heading}: causal labels ahead of attention labels under the {title} loss",
                    f"{papers[0] - papers[1]:+.2f}",
                    causal,
                    attention,
                )
            )
    return [*claims, pooling_claim(results)]


def pooling_claim(results: Results) -> Claim:
    """Every router of every label for itself is a failure on multi-hop."""
    routers = [metric for arm in ARMS for metric in routed_cells(results, MULTIHOP, **place(arm)).values()]
    best = max(routers, key=lambda metric: metric.value)
    return Claim(
        "Multi-hop: pooling routers fail under every label (every router under half right)",
        "0.01 to 0.10",
        f"best router {interval(best)} ({best.at['label']}, {best.at['loss']})",
        f"{len(ARMS)} labels × {len(routers) // len(ARMS)} routed teachers; {best.n} examples",
        worst({below(metric, 0.5) for metric in routers}),
    )


def pooling_best(results: Results) -> str:
    best = max(
        fmean(results.values("routed", condition=MULTIHOP, label=label, loss=loss))
        for label, loss in ARMS
        if label != "all_positions"
    )
    return f"at most {best:.2f}; random {over_teachers(results, MULTIHOP, arm='random'):.2f}"


EXPERIMENT = Experiment(
    name=NAME,
    place=50,
    jobs=jobs,
    teachers=every_teacher(MIXTURE),
    reports=(
        Report("tab:ablation", "routing", ablation_table),
        Report("tab:app-ablation", "routing", ablation_per_teacher_table),
    ),
    claims=label_claims,
    differences=(
        Difference(
            "tab:ablation, pooling routers on multi-hop",
            "0.01–0.12; random 0.04",
            pooling_best,
            "the same failure, of as many blocks; what brings the few more right answers: not tested",
        ),
    ),
    choices=(
        Choice(
            "The budget of the label-by-loss ablation",
            "10 % of the blocks, four of 32 as in the paper, and at least the three of a chain",
        ),
        Choice(
            "The causal label under KL",
            "even over the annotated sets and inside each, which is even over their union, since sets of one example "
            "are disjoint and of one size",
        ),
    ),
)

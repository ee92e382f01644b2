"""What the training problem does to attention: the order of a chain and the chains in sight, on equally good teachers.

Teachers that differ in the multi-hop problem they were trained on, each on fresh examples of its own order with one
chain: what does each readout of the teacher find, and is the chain enough? One result per teacher.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mode

import torch
from scipy.stats import chi2_contingency
from torch import Tensor

from keepset import seeds
from keepset.interventions import Fast, GoldToken, Probe
from keepset.paper.chain_routers import CHAIN
from keepset.paper.claim import FAILS, HOLDS, NOT_TESTED, OPEN, Claim, above, every_claim, told, worst
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.labelled import RUN, Labelled
from keepset.paper.oracles import layer_scores, selections
from keepset.paper.redundant import nonces
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.routed import chain_blocks, chain_recall, family_scores, routed_correct, routed_probe, top_blocks
from keepset.paper.shorter_chains import NAME as SHORTER
from keepset.paper.shorter_chains import middle_by_length
from keepset.paper.statistics import bounds, share
from keepset.paper.table import Table, spread, with_interval
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, SMALLER_FIVE_TASK, VALUE_FIRST, teachers_and_more

NAME = "training_problem"
EXAMPLES = {"smoke": 6, "small": 300, "paper": 300}
NONCE_DRAW = 7
"""Away from the draws of the experiments on families."""


@dataclass(frozen=True)
class Problem:
    """How the chains of a mixture of teachers stand, and what they are asked here."""

    title: str
    condition: str


PROBLEMS = {
    FIVE_TASK: Problem(
        "pointers first, one chain, room after a pointer; the paper's records, keys and values", MULTIHOP
    ),
    SMALLER_FIVE_TASK: Problem("pointers first, one chain, room after a pointer", MULTIHOP),
    "paper-chains": Problem("pointers first, one chain, no room, short contexts first", MULTIHOP),
    "paper-chains-long": Problem("pointers first, one chain, no room, longer", MULTIHOP),
    VALUE_FIRST: Problem("value first, several chains, no room", "multihop"),
    "hardened-pointers-first": Problem(
        "hardened: pointers first before any order, several chains, room after a pointer", "multihop_hardened"
    ),
    "hardened": Problem("hardened: value first before any order, several chains, no room", "multihop_hardened"),
}
"""Mixture -> its training problem. The paper's: pointers first, one chain, blocks that a pointer does not fill."""


def jobs(scale: str) -> Jobs:
    """One result per teacher of every problem."""
    return {
        f"{NAME}/{mixture}-{seed}": partial(readouts, scale, mixture, seed)
        for mixture, seed in teachers_and_more(*PROBLEMS)(scale)
    }


def readouts(scale: str, mixture: str, seed: int) -> RunResult:
    """Every selection of three blocks on one teacher: is it answered, and which records of the chain are kept?"""
    started = time.monotonic()
    condition = PROBLEMS[mixture].condition
    subject = Labelled.load(scale, mixture, seed, condition, EXAMPLES[scale])
    probe, chain = routed_probe(subject.model, subject.batch), chain_blocks(subject.batch)
    here = partial(share, n=subject.n, condition=condition)
    metrics: list[Metric] = [here("routed", int(subject.effects.clean_correct.sum()), arm="dense")]
    for arm, scores in selections(subject).items():
        kept = top_blocks(scores, CHAIN)
        recall = chain_recall(kept, chain)
        metrics.append(here("routed", int(routed_correct(probe, kept).sum()), arm=arm, k=CHAIN))
        metrics += [here("recall", int(recall[:, i].sum()), arm=arm, k=CHAIN, record=i) for i in range(CHAIN)]
    overwritten = Probe(
        subject.batch, Fast(subject.model, nonces(subject.config, NONCE_DRAW, alternatives=1)), GoldToken()
    )
    right = int(routed_correct(overwritten, top_blocks(family_scores(subject.batch.family), CHAIN)).sum())
    metrics.append(here("routed", right, arm="annotated_among_others", k=CHAIN))
    right = int(routed_correct(probe, and_following(subject.batch.family[:, 0])).sum())
    metrics.append(here("routed", right, arm="annotated_and_following"))
    for layer, scores in enumerate(layer_scores(subject.model, subject.batch)):
        right = int(routed_correct(probe, top_blocks(scores, CHAIN)).sum())
        metrics.append(here("routed", right, arm="attention_layer", layer=layer, k=CHAIN))
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={
            "mixture": mixture,
            "seed": seed,
            "condition": condition,
            "budget": CHAIN,
            "n_blocks": len(subject.batch.blocks),
            "steps": subject.config.steps,
        },
        seeds={"intervention": seeds.INTERVENTION.seed(RUN)},
        counts={"examples": subject.n},
        metrics=metrics,
    )


def and_following(kept: Tensor) -> Tensor:
    """(B, N) bool -> the same with the block that stands after each kept one."""
    return kept | torch.nn.functional.pad(kept, (1, 0))[:, :-1]


COLUMNS = {
    "dense": ("Dense", "0.95–1.00"),
    "annotated": ("Chain alone", "0.99–1.00"),
    "annotated_and_following": ("Chain and the next records", "–"),
    "annotated_among_others": ("Chain among other records", "–"),
    "attention_max": ("Attention, max heads", "0.41–0.87"),
    "attention_mean": ("Attention, mean heads", "0.48–0.98"),
    "attention_layer": ("Best layer", "0.21–0.55"),
    "rollout": ("Rollout", "0.24–0.99"),
    "trace": ("Backward trace", "0.90–0.99"),
    "ablation": ("Ablation ranking", "0.98–0.99"),
    "random": ("Random", "0.04–0.08"),
}
"""Arm -> title, the paper's range over the four teachers that learned chains."""
PAPER_RECALL = "1.00/0.00–0.99/1.00"
"""Of the paper's imitation routers; it has none of the oracle."""


def routed(results: Results, mixture: str, teacher: int, arm: str) -> Metric:
    """One selection on one teacher; of the layers the best one."""
    if arm != "attention_layer":
        return results.metric("routed", mixture=mixture, teacher=teacher, arm=arm)
    layers = range(len(results.values("routed", mixture=mixture, teacher=teacher, arm=arm)))
    every = [results.metric("routed", mixture=mixture, teacher=teacher, arm=arm, layer=layer) for layer in layers]
    return max(every, key=lambda metric: metric.value)


def teachers_of(results: Results, mixture: str) -> list[int]:
    """Those that have been measured."""
    return sorted(results.select("routed", mixture=mixture, arm="dense")["teacher"])


def record_recall(results: Results, mixture: str, teacher: int, arm: str) -> list[float]:
    """First pointer, second pointer, value."""
    return [results.value("recall", mixture=mixture, teacher=teacher, arm=arm, record=i) for i in range(CHAIN)]


def problems_table(results: Results) -> Table:
    """Every teacher with intervals, then the range of each problem, then the paper's."""
    rows: list[tuple[str, ...]] = []
    for mixture, problem in PROBLEMS.items():
        teachers = teachers_of(results, mixture)
        found = {arm: [routed(results, mixture, teacher, arm) for teacher in teachers] for arm in COLUMNS}
        recalls = [record_recall(results, mixture, teacher, "attention_max") for teacher in teachers]
        for i, teacher in enumerate(teachers):
            cells = (with_interval(found[arm][i]) for arm in COLUMNS)
            rows.append((problem.title, f"{mixture}-{teacher}", *cells, "/".join(f"{r:.2f}" for r in recalls[i])))
        if len(teachers) > 1:
            ranges = (spread([metric.value for metric in found[arm]]) for arm in COLUMNS)
            recall = "/".join(spread(values) for values in zip(*recalls, strict=True))
            rows.append((problem.title, f"range of {len(teachers)}", *ranges, recall))
        rows += [()] * bool(teachers)
    rows.append(("the paper's", "range of 4", *(paper for _, paper in COLUMNS.values()), PAPER_RECALL))
    run = results.run()
    return Table(
        name="training-problem",
        caption=(
            "What the training problem does to attention: teachers that differ in how their chains stood in training, "
            "each on fresh examples of its own order, with one chain or, hardened, with three. Three blocks are kept, "
            f"of {blocks_in_context(results)} (the paper: of 32). Recall: how often the three most attended blocks "
            "(max heads) hold the first pointer/second pointer/value. Best layer is post hoc, an upper bound."
        ),
        columns=("Training", "Teacher", *(title for title, _ in COLUMNS.values()), "Recall of attention"),
        rows=tuple(rows),
        notes=(
            f"n = {run.counts['examples']} examples per teacher, {run.scale} scale; 95 % intervals in brackets.",
            "Chain alone: only the three annotated records are visible. Chain and the next records: the record that "
            "stands after each of them is visible too. Chain among other records: nothing is hidden, but every record "
            "outside the chain is overwritten by an unrelated one. Low in the first and high in the others: the chain "
            "is followed, but what a pointer says is joined at the first token after it.",
            "No room: a pointer fills its block, so the first token after it belongs to the next record and is hidden "
            "with it. Room: a filler token follows it inside its block, as in the paper's blocks of eight.",
            "The paper's recall is of its imitation routers.",
        ),
    )


def blocks_in_context(results: Results) -> str:
    """As most teachers have them, and the mixtures that have others."""
    sizes = {str(run.at["mixture"]): str(run.config["n_blocks"]) for run in results.runs.values()}
    usual = mode(sizes.values())
    others = [f"{mixture}: of {size}" for mixture, size in sizes.items() if size != usual]
    return usual + "".join(f"; {other}" for other in others)


ENOUGH = 0.95
"""Routed accuracy at which a selection counts as sufficient."""
END_RECALL = 0.9
"""At which the end of a chain counts as nearly always kept."""


def problem_claims(results: Results) -> list[Claim]:
    """The paper's claims on labels of chains, on teachers that were trained on the paper's problem."""
    mixture, everything, results = FIVE_TASK, results, results.of(NAME)
    teachers = [t for t in teachers_of(results, mixture) if routed(results, mixture, t, "dense").value >= ENOUGH]
    if len(teachers) < 2:
        return []
    n = f"{len(teachers)} teachers × {results.run().counts['examples']} examples"
    metrics = {arm: [routed(results, mixture, teacher, arm) for teacher in teachers] for arm in COLUMNS}
    own_choice = other_attention(everything)
    return [
        replace(differs_between_teachers(metrics["attention_max"], n), own_choice=own_choice),
        replace(two_ends(results, teachers, n), own_choice=own_choice),
        *(
            every_claim(
                f"Chains, pointers first: {title}: at least {bar} on every teacher",
                COLUMNS[arm][1],
                metrics[arm],
                bar,
                n,
            )
            for arm, title, bar in (
                ("annotated", "the annotated chain alone is enough", ENOUGH),
                ("ablation", "the ablation ranking finds the chain", ENOUGH),
            )
        ),
    ]


def same_share(found: Sequence[Metric]) -> float:
    """Chi-squared p of every teacher having the same share."""
    right = [round(metric.value * metric.n) for metric in found]
    wrong = [metric.n - count for metric, count in zip(found, right, strict=True)]
    return float(chi2_contingency([right, wrong]).pvalue) if sum(wrong) and sum(right) else 1.0


def other_attention(results: Results) -> str:
    """The same asked of teachers of smaller sizes, and of these teachers in shorter contexts."""
    own = results.of(NAME)
    teachers = teachers_of(own, SMALLER_FIVE_TASK) if own else []
    smaller = [routed(own, SMALLER_FIVE_TASK, teacher, "attention_max").value for teacher in teachers]
    found = []
    if smaller:
        found.append(f"{SMALLER_FIVE_TASK} teachers, half as many records and far fewer keys: {spread(smaller)}")
    if shorter := middle_by_length(results.of(SHORTER), FIVE_TASK):
        found.append(f"middle held by the same teachers in contexts of {shorter}")
    return "; ".join(found) or NOT_TESTED


APART = 0.2
"""How far the lowest and the highest teacher have to lie apart; the paper's do by 0.57 and 0.99. A smaller difference
can be told from none on so many examples, and would not be what the paper says."""


def apart(found: Sequence[Metric]) -> str:
    """Do teachers differ by ``APART``?"""
    lowest, highest = (bounds(pick(found, key=lambda metric: metric.value)) for pick in (min, max))
    if highest[1] - lowest[0] < APART:
        return told(FAILS, len(found))  # a few that are alike say little of others
    return HOLDS if highest[0] - lowest[1] >= APART and same_share(found) < 0.05 else OPEN


def differs_between_teachers(attention: Sequence[Metric], n: str) -> Claim:
    """Equally good teachers, another attention: the same examples are answered by other shares."""
    p_value = same_share(attention)
    return Claim(
        f"Chains, pointers first: attention as the selection differs from teacher to teacher, by {APART} or more",
        "0.41 to 0.98",
        f"{min(m.value for m in attention):.2f} to {max(m.value for m in attention):.2f}; p = {p_value:.1g} "
        "(chi-squared over teachers)",
        n,
        apart(attention),
    )


def two_ends(results: Results, teachers: Sequence[int], n: str) -> Claim:
    """Attention keeps the queried record and the value; whether it keeps the one between them is the teacher's own."""
    first, middle, value = (
        [results.metric("recall", mixture=FIVE_TASK, teacher=t, arm="attention_max", record=i) for t in teachers]
        for i in range(CHAIN)
    )
    p_value = same_share(middle)
    verdicts = {above(metric, END_RECALL) for metric in (*first, *value)} | {apart(middle)}
    shown = "; ".join(
        f"{name} {spread([metric.value for metric in found])}"
        for name, found in (("first pointer", first), ("second pointer", middle), ("value", value))
    )
    return Claim(
        f"Chains, pointers first: attention holds both ends of a chain ({END_RECALL} or more, on every teacher); how "
        f"often it holds the middle differs between teachers, by {APART} or more",
        "ends near 1.00, middle 0.00 to 0.99 (its imitation routers)",
        f"{shown}; p = {p_value:.1g} (chi-squared over teachers)",
        n,
        worst(verdicts),
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=39,
    jobs=jobs,
    teachers=teachers_and_more(*PROBLEMS),
    reports=(Report("What the training problem does to attention", "chains", problems_table, beyond=True),),
    claims=problem_claims,
    claims_need=(SHORTER,),
)

"""Chain routers on multi-hop: attention, backward trace and annotated chains as targets, on each teacher's own labels.

Gives ``tab:chain``, ``tab:chain-per-teacher`` and ``tab:trace-supervision``. One result per teacher and arm,
and one per teacher for what no router has a part in: the dense teacher and random gates.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from scipy.stats import f_oneway, pearsonr
from transformers import PreTrainedModel

from keepset.blocks import ExampleBatch
from keepset.paper.chain_routers import (
    ARMS,
    CHAIN,
    EXAMPLES,
    ROUTER_SEEDS,
    routed_metrics,
    routed_run,
    train,
    training_note,
    unrouted_metrics,
)
from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim, every_claim, told
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Difference, Experiment, Jobs, Report, run_result
from keepset.paper.hardened import ON_THE_SOURCE
from keepset.paper.oracles import best_layer
from keepset.paper.result import Coordinate, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table, beside, bracket, spread
from keepset.paper.teachers import FIVE_TASK, MULTIHOP, every_teacher, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.teacher import load_teacher

NAME = "chains"
MIXTURE = FIVE_TASK
CONDITION = MULTIHOP
ANNOTATED = 0
"""Annotations are nobody's own: the causal routers of this teacher's order of examples route every teacher."""
IMITATING = {"smoke": 2, "small": 5, "paper": 5}
"""Routers of each teacher's attention: with the three of the other arms, five teachers are too few to tell whether
teachers differ by more than routers do."""


def jobs(scale: str) -> Jobs:
    """Without a router, then arm by arm: every teacher."""
    teachers = teacher_seeds(scale, MIXTURE)
    found: Jobs = {f"{NAME}/{MIXTURE}-{teacher}-unrouted": partial(unrouted, scale, teacher) for teacher in teachers}
    for arm in ARMS:
        found |= {f"{NAME}/{MIXTURE}-{teacher}-{arm}": partial(route, scale, teacher, arm) for teacher in teachers}
    return found


def unrouted(scale: str, teacher: int) -> RunResult:
    """The dense teacher, and random gates."""
    started = time.monotonic()
    model, batch = asked(scale, teacher)
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": teacher},
        config=settings(teacher),
        seeds={"evaluation": evaluation_seed(CONDITION)},
        counts={"examples": EXAMPLES[scale]},
        metrics=unrouted_metrics(CONDITION, model, batch, CHAIN),
    )


def route(scale: str, teacher: int, arm: str) -> RunResult:
    """Trains one arm on the labels of one teacher and routes that teacher."""
    started = time.monotonic()
    source = ANNOTATED if arm == "causal" else teacher
    router_seeds = (IMITATING if arm == "attention" else ROUTER_SEEDS)[scale]
    routers = train(scale, MIXTURE, source, CONDITION, arm, router_seeds=router_seeds)
    model, batch = asked(scale, teacher)
    return routed_run(
        NAME,
        scale,
        started,
        at={"mixture": MIXTURE, "teacher": teacher, "arm": arm},
        config=settings(teacher),
        teacher=source,
        metrics=routed_metrics(CONDITION, model, batch, routers, CHAIN),
        router_seeds=router_seeds,
    )


def asked(scale: str, teacher: int) -> tuple[PreTrainedModel, ExampleBatch]:
    """A teacher and the chains that it is asked for."""
    model, config = load_teacher(teacher_folder(scale, MIXTURE, teacher))
    return model, evaluation_batch(config, CONDITION, EXAMPLES[scale])


def settings(teacher: int) -> dict[str, Any]:
    return {"mixture": MIXTURE, "seed": teacher, "condition": CONDITION, "budget": CHAIN}


LABELS = {"attention": "attention (KL)", "trace": "backward trace (coverage)", "causal": "causal (coverage)"}
PAPER_ROUTERS = {"attention": "0.36–0.98", "trace": "0.98–0.99", "causal": "0.99–1.00"}
PAPER_FIRST = {"attention": ("0.37", "1.00/0.00/1.00"), "causal": ("0.99", "1.00/1.00/1.00")}
"""Of the first teacher: routed, recall of each record."""
PAPER_PER_TEACHER = {
    0: ("0.37 [0.36–0.38]", "0.99"),
    1: ("0.98 [0.97–0.98]", "1.00"),
    2: ("0.48 [0.44–0.51]", "0.99"),
    4: ("0.93 [0.93–0.94]", "0.99"),
}
"""Attention, causal. The paper's teacher 3 did not learn chains."""


def chain_table(results: Results) -> Table:
    """``tab:chain``: labels and routers on multi-hop at the size of a chain."""
    routed, oracles = results.of(NAME), results.of("oracles")

    def oracle(*arms: str) -> list[float]:
        return [value for arm in arms for value in oracles.values("routed", arm=arm, k=CHAIN)]

    attention = oracle("attention_max", "attention_mean")
    rows: list[tuple[str, ...]] = [
        ("Dense teacher (no routing)", "", f"{spread(oracles.values('routed', arm='dense'))} (0.99)", ""),
        ("Oracle on labels", "annotated chain", f"{spread(oracle('annotated'))} (0.99–1.00)", ""),
        ("Oracle on labels", "ablation ranking", f"{spread(oracle('ablation'))} (0.98–0.99)", ""),
        ("Oracle on labels", "teacher attention", f"{spread(attention)} (0.41–0.98)", ""),
        ("Oracle on labels", "attention, best layer", f"{best_layer(oracles)} (0.21–0.55)", ""),
    ]
    for arm, (accuracy, recall) in PAPER_FIRST.items():
        first = f"{fmean(routed.values('routed', arm=arm, teacher=0)):.2f} ({accuracy})"
        rows.append(("Chain router, seed 0", LABELS[arm], first, f"{record_recall(routed, arm, 0)} ({recall})"))
    for arm, title in LABELS.items():
        found = of_routers(spread, routed, arm=arm)
        rows.append(("Chain router, all teachers", title, f"{found} ({PAPER_ROUTERS[arm]})", ""))
    rows.append(("Random gates", "", f"{spread(routed.values('routed', arm='random'))} (0.04)", ""))
    return Table(
        name="tab-chain",
        caption=(
            f"Multi-hop routing at three blocks (of {oracles.run().config['n_blocks']}; the paper's 32). Oracles "
            "select from labels; ranges are over teachers and router seeds (the paper's in brackets). Chain recall is "
            "first pointer/second pointer/value, mean over router seeds. Best layer is post hoc, an upper bound."
        ),
        columns=("Selector", "Supervision", "Routed", "Chain recall"),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def per_teacher_table(routed: Results) -> Table:
    """``tab:chain-per-teacher``: every teacher's own labels."""
    rows = []
    for teacher in routed.coordinates("teacher"):
        attention, causal = PAPER_PER_TEACHER.get(teacher, ("not converged", "not converged"))
        by_arm = {arm: of_routers(bracket, routed, arm=arm, teacher=teacher) for arm in ARMS}
        rows.append(
            (
                f"seed {teacher}",
                f"{routed.value('routed', arm='dense', teacher=teacher):.2f}",
                f"{by_arm['attention']} ({attention})",
                by_arm["trace"],
                f"{by_arm['causal']} ({causal})",
                record_recall(routed, "attention", teacher),
                record_recall(routed, "causal", teacher),
            )
        )
    return Table(
        name="tab-chain-per-teacher",
        caption=(
            "Chain routers on every teacher: attention and trace are the labels of that teacher, annotations are the "
            "same for all and so are their routers. Mean over router seeds with the range in brackets (the paper's in "
            "round ones). Recall is first pointer/second pointer/value."
        ),
        columns=(
            "Teacher",
            "Dense",
            "Attention (KL)",
            "Backward trace",
            "Causal (coverage)",
            "Recall, attention",
            "Recall, causal",
        ),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def trace_supervision_table(results: Results) -> Table:
    """``tab:trace-supervision``: three targets on chains, on hardened chains, and what they keep of obsolete writes."""
    routed, oracles, hardened = results.of(NAME), results.of("oracles"), results.of("hardened")
    rows = []
    for arm, title, selection, papers in (
        ("causal", "Annotated evidence", "annotated", ("0.99–1.00", "0.99–1.00", "0.00")),
        ("trace", "Backward trace", "trace", ("0.98–0.99", "0.98–0.99", "0.91–1.00")),
        ("attention", "Answer-position attention", "attention_max", ("0.36–0.98", "0.97", "0.70–0.99")),
    ):
        measured = (
            of_routers(spread, routed, arm=arm),
            of_routers(spread, hardened, arm=arm, **ON_THE_SOURCE),
            spread(oracles.values("obsolete", arm=selection)),
        )
        rows.append((title, *beside(measured, papers)))
    return Table(
        name="tab-trace-supervision",
        caption=(
            "The backward trace as a target: chain routers trained on each label, ranges over teachers and router "
            "seeds (the paper's in brackets). The last column is how often the three selected blocks of a latest-write "
            "example hold a superseded write."
        ),
        columns=("Supervision", "Chains", "Hardened chains", "Keeps an obsolete write"),
        rows=tuple(rows),
        notes=(teachers_note(routed),),
    )


def of_routers(shown: Callable[[list[float]], str], routed: Results, **at: Coordinate) -> str:
    """The routed accuracy of every router at these coordinates."""
    found = [float(value) for value in routed.select("routed", **at)["value"]]
    return shown(found) if found else "not run"


def record_recall(routed: Results, arm: str, teacher: int) -> str:
    means = [fmean(routed.values("recall", arm=arm, teacher=teacher, record=i)) for i in range(CHAIN)]
    return "/".join(f"{mean:.2f}" for mean in means)


def teachers_note(routed: Results) -> str:
    """How many teachers, and how their routers were trained."""
    teachers = len(routed.coordinates("teacher"))
    imitating, causal = (routed.run(arm=arm) for arm in ("attention", "causal"))
    seeds = imitating.config["router_seeds"]
    more = f" ({seeds} of attention)" if seeds != causal.config["router_seeds"] else ""
    return f"{teachers} {MIXTURE} teachers; {training_note(causal)}{more}"


CONVERGED = 0.9
"""Dense accuracy on multi-hop above which a teacher has learned chains; the paper's failed one has 0.07."""
FLOOR = 0.95
TARGETS = {"causal": ("causal routers", "0.99 to 1.00"), "trace": ("routers of the backward trace", "0.98 to 0.99")}
"""Arm that matches the chain -> its name in the claim, the paper's range."""


def chain_claims(routed: Results) -> list[Claim]:
    """Routers of annotations and of the trace on every converged teacher; imitation's spread, and what explains it."""
    dense = {teacher: routed.value("routed", arm="dense", teacher=teacher) for teacher in routed.coordinates("teacher")}
    converged = [teacher for teacher, value in dense.items() if value >= CONVERGED]
    if len(converged) < 2:
        return []
    router_seeds = {
        arm: routed.run(teacher=converged[0], arm=arm).config["router_seeds"] for arm in ("attention", "causal")
    }
    every_router = {
        arm: [
            routed.metric("routed", arm=arm, teacher=teacher, router_seed=seed)
            for teacher in converged
            for seed in range(router_seeds["causal"])
        ]
        for arm in TARGETS
        if not any(routed.select("routed", arm=arm, teacher=teacher).empty for teacher in converged)
    }
    spreads = [routed.values("routed", arm="attention", teacher=teacher) for teacher in converged]
    means = [fmean(values) for values in spreads]
    p_value = float(f_oneway(*spreads).pvalue)
    within = max(max(values) - min(values) for values in spreads)
    recall = {
        name: [v for teacher in converged for v in routed.values("recall", arm="attention", teacher=teacher, record=i)]
        for i, name in enumerate(("first pointer", "second pointer", "value"))
    }
    accuracy = [value for values in spreads for value in values]
    routers = {arm: f"{len(converged)} teachers × {seeds} routers" for arm, seeds in router_seeds.items()}
    return [
        *(
            every_claim(
                f"Multi-hop: {TARGETS[arm][0]} at {FLOOR} or more on every converged teacher",
                TARGETS[arm][1],
                metrics,
                FLOOR,
                f"{routers['causal']}; {metrics[0].n} examples",
            )
            for arm, metrics in every_router.items()
        ),
        Claim(
            "Multi-hop: imitation moves across teachers by more than across router seeds",
            "0.36 to 0.98; seeds within 0.08",
            f"{min(means):.2f} to {max(means):.2f}; seeds within {within:.2f}; p = {p_value:.1g} (one-way analysis)",
            routers["attention"],
            told(HOLDS if p_value < 0.05 and max(means) - min(means) > within else OPEN, len(accuracy)),
        ),
        Claim(
            "Multi-hop: second-pointer recall explains imitation's accuracy",
            "recall 0.00 to 0.99, the others near 1.00; accuracy 0.37 to 0.98",
            "; ".join(f"{record} {min(found):.2f} to {max(found):.2f}" for record, found in recall.items())
            + f"; accuracy {min(accuracy):.2f} to {max(accuracy):.2f}",
            routers["attention"],
            explains(recall["second pointer"], accuracy),
            "the order of a chain: `keepset reproduce training_problem`",
        ),
    ]


def explains(recall: Sequence[float], accuracy: Sequence[float]) -> str:
    """A record that is always kept explains no failure; otherwise the two have to rise together."""
    if min(recall) >= FLOOR:
        return FAILS if min(accuracy) < FLOOR else OPEN
    low, high = pearsonr(recall, accuracy).confidence_interval()
    return told(HOLDS if low > 0 else FAILS if high < 0 else OPEN, len(accuracy))


EXPERIMENT = Experiment(
    name=NAME,
    place=40,
    jobs=jobs,
    teachers=every_teacher(MIXTURE),
    reports=(
        Report("tab:chain", "chains", chain_table, needs=("oracles",)),
        Report("tab:chain-per-teacher", "chains", per_teacher_table),
        Report("tab:trace-supervision", "chains", trace_supervision_table, needs=("oracles", "hardened")),
    ),
    claims=chain_claims,
    differences=(
        Difference(
            "tab:chain, imitation routers",
            "0.36–0.98",
            lambda results: spread(results.values("routed", arm="attention")),
            "a router that distils attention inherits what attention holds: see the line above",
        ),
    ),
)

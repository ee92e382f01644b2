"""Two hops: record routers of both kinds, from every label source. Gives ``tab:two-hop-router``.

two_hop_routers/<model>/routed-<part>      every router at two records, all examples
"""

import time
from collections.abc import Mapping
from functools import lru_cache, partial
from operator import attrgetter

from torch import Tensor, nn

from keepset.blocks import KeepSet
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.examples import draw_chains
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import annotated, chain_lessons, labelled, vocabulary
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, paper_rows, part_jobs
from keepset.paper.pretrained.readings import ATTENTION, TRACE, best, chance
from keepset.paper.pretrained.routers import (
    WORDS,
    Kind,
    router_tokens,
    score_records,
    shared_words,
    train_record_routers,
)
from keepset.paper.pretrained.settings import BUDGET, RECORDS, Setting, frozen
from keepset.paper.pretrained.two_hop import ANNOTATED, PARTS, RANDOM, chain_recalls
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.routers.targets import as_distribution

NAME = "two_hop_routers"
LABELS = (ANNOTATED, TRACE, ATTENTION)
MANY = "annotated, many"
ARMS = (
    *(("span", label) for label in LABELS),
    *(("mixer", label) for label in (ANNOTATED, MANY, TRACE, ATTENTION)),
    ("none", WORDS),
    ("oracle", ANNOTATED),
    ("random", RANDOM),
)
"""Router and label, in the paper's order."""


def jobs(scale: str) -> Jobs:
    """One result per model and part; models with lessons of two hops."""
    size = attrgetter("judged")
    return part_jobs(scale, NAME, {"routed": (lambda s: size(s) if s.hop_lessons else 0, partial(run, scale))})


@lru_cache(maxsize=1)
def chain_routers(scale: str, setting: Setting) -> Mapping[tuple[str, str], nn.Module]:
    """Kind and label -> router; many annotated lessons where the model has them."""
    n = setting.hop_lessons
    lessons = chain_lessons(setting, range(n))
    targets: dict[str, Tensor] = {ANNOTATED: annotated(lessons)}
    for label in (TRACE, ATTENTION):
        scores = labelled(scale, setting, "two_hop", label, partial(chain_lessons, setting), n)
        targets[label] = as_distribution(scores)
    kinds: tuple[Kind, ...] = ("span", "mixer")
    found: dict[tuple[str, str], nn.Module] = {}
    for kind in kinds:
        trained = train_record_routers(kind, vocabulary(setting), router_tokens(lessons), targets, setting.least_steps)
        found |= {(kind, label): router for label, router in trained.items()}
    if setting.many_hop_lessons:
        many = chain_lessons(setting, range(setting.many_hop_lessons))
        target = {MANY: annotated(many)}
        learned = train_record_routers("mixer", vocabulary(setting), router_tokens(many), target, setting.least_steps)
        found["mixer", MANY] = learned[MANY]
    return found


def run(scale: str, setting: Setting, part: int, numbers: range) -> RunResult:
    """One part, every router."""
    started = time.monotonic()
    examples = draw_chains(setting, RECORDS, numbers)
    kept: dict[tuple[str, str], list[KeepSet]] = {
        arm: [best(row, BUDGET) for row in score_records(router, examples)]
        for arm, router in chain_routers(scale, setting).items()
    }
    kept["none", WORDS] = [best(row, BUDGET) for row in shared_words(frozen(setting)[1], examples)]
    kept["oracle", ANNOTATED] = [example.evidence for example in examples]
    kept["random", RANDOM] = [best(chance(RECORDS, number), BUDGET) for number in numbers]
    judged = judge(choosing(setting, examples), lambda i, solved: {arm: sets[i] for arm, sets in kept.items()})
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    for arm, sets in kept.items():
        at: At = {"router": arm[0], "label": arm[1]}
        metrics.append(judged.share("routed", arm, **at))
        metrics += chain_recalls(examples, sets, [True] * len(examples), **at)
    counts = {"examples": len(examples), "lessons": setting.hop_lessons, "many": setting.many_hop_lessons}
    return record_result(NAME, scale, started, setting, "two_hop", RECORDS, metrics, counts, part=part)


PAPER = """
Qwen2.5-7B | span | annotated | 150 | 0.21 | - | - | 0.07
Qwen2.5-7B | span | trace | 150 | 0.21 | - | - | 0.03
Qwen2.5-7B | span | attention | 150 | 0.21 | - | - | 0.02
Qwen2.5-7B | mixer | annotated | 150 | 0.23 | - | - | 0.08
Qwen2.5-7B | mixer | annotated (20k) | 150 | 0.22 | - | - | 0.10
Qwen2.5-7B | mixer | trace | 150 | 0.21 | - | - | 0.03
Qwen2.5-7B | mixer | attention | 150 | 0.23 | - | - | 0.02
Qwen2.5-7B | oracle | annotated | 150 | 1.00 | - | - | 1.00
Qwen2.5-7B | random | random | 150 | 0.23 | - | - | 0.01
Qwen2.5-3B | span | annotated | 150 | 0.21 | - | - | 0.07
Qwen2.5-3B | span | trace | 150 | 0.27 | - | - | 0.00
Qwen2.5-3B | span | attention | 150 | 0.25 | - | - | 0.03
Qwen2.5-3B | oracle | annotated | 150 | 1.00 | - | - | 1.00
Qwen2.5-3B | random | random | 150 | 0.22 | - | - | 0.01
Yi-1.5-9B | span | annotated | 150 | 0.28 | - | - | 0.13
Yi-1.5-9B | span | trace | 150 | 0.23 | - | - | 0.03
Yi-1.5-9B | span | attention | 150 | 0.20 | - | - | 0.03
Yi-1.5-9B | oracle | annotated | 150 | 1.00 | - | - | 1.00
Yi-1.5-9B | random | random | 150 | 0.23 | - | - | 0.01
"""


def router_table(results: Results) -> Table:
    """``tab:two-hop-router``."""
    groups = []
    for model in models(results):
        rows = []
        for router, label in ARMS:
            at: At = {"model": model, "router": router, "label": label}
            if count(results, "routed", **at) != "0":
                recalls = [cell(results, "recall", of=part, **at) for part in PARTS]
                rows.append(
                    (model, router, label, count(results, "routed", **at), cell(results, "routed", **at), *recalls)
                )
        groups.append(rows)
    lessons = {str(r.at["model"]): (r.counts["lessons"], r.counts["many"]) for r in results.runs.values()}
    learned = "; ".join(f"{model} {few:,}, many {many:,}" for model, (few, many) in lessons.items())
    return Table(
        name="tab-two-hop-router",
        caption=(
            "Learned record routers on two hops at two of 16 records, all examples: accuracy, and how often the "
            "pointer, the value and both are kept."
        ),
        columns=("Model", "Router", "Label", "n", "Routed", "Pointer", "Value", "Both"),
        rows=(*grouped(groups), *paper_rows(PAPER)),
        notes=(INTERVAL_NOTE, f"Lessons: {learned} (the paper: 2,000, many 20,000)."),
    )


EXPERIMENT = Experiment(NAME, place=67, jobs=jobs, reports=(Report("tab:two-hop-router", "pretrained", router_table),))

"""Beyond the paper: a router for two hops that looks twice.

    first pass     question            -> the record it names: the pointer
    second pass    the pointer's words -> the record they name: the value

Both passes are span routers; the second reads the record that the first has found where the question was. The paper's
routers score every record against the question alone, which the value record never names.

    lookup/<model>/recall            recall of both records by training examples; costs no forward of the model
    lookup/<model>/routed-<part>     the model's answers from what the largest such router keeps, and from the paper's

With labels ``recovered`` nothing is annotated: the two records whose hiding costs the answer most, the one nearer to
the question in words first.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from keepset.blocks import Example, KeepSet
from keepset.labels import top_k
from keepset.paper.claim import Claim
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.pretrained.examples import draw_chains
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import RECOVERED, labelled, vocabulary
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, count, grouped, models, pooled_share
from keepset.paper.pretrained.readings import best
from keepset.paper.pretrained.routers import router_tokens, train_record_routers
from keepset.paper.pretrained.settings import RECORDS, SETTINGS, Setting, parts
from keepset.paper.pretrained.two_hop import ANNOTATED, PARTS, chain_recalls, solves
from keepset.paper.pretrained.written import bar_claim, record_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.testbed.tasks.record_chains import ChainExample

NAME = "lookup"
CURVE = {"smoke": (2, 4), "small": (50, 200, 800, 3_200), "paper": (50, 200, 800, 3_200, 12_800)}
"""Annotated lessons."""
TRIED = {"smoke": 3, "small": 500, "paper": 500}
"""Examples of recall."""
BAR = 0.8
"""Routed accuracy on solved examples that counts as a success; the paper's routers reach 0.21 to 0.28 of all."""


@dataclass(frozen=True)
class Lookup:
    """Two routers, one after the other."""

    first: nn.Module
    second: nn.Module

    @torch.no_grad()
    def keep(self, example: Example) -> KeepSet:
        """Two records."""
        tokens = router_tokens([example])
        pointer = best(self.first(tokens)[0], 1)
        return pointer | best(self.second(asking(tokens, torch.tensor(sorted(pointer))))[0], 1, barred=pointer)


def asking(tokens: Tensor, pointers: Tensor) -> Tensor:
    """(B, N + 1, W) with the words of the pointer records (B,) where the question stands."""
    asked = tokens.clone()
    asked[:, -1] = tokens[torch.arange(len(tokens)), pointers]
    return asked


def train_lookup(setting: Setting, lessons: Sequence[ChainExample], pointers: Tensor, values: Tensor) -> Lookup:
    """``pointers`` and ``values`` (B,) are the labels."""
    tokens = router_tokens(lessons)
    n_records = tokens.shape[1] - 1

    def learn(read: Tensor, records: Tensor) -> nn.Module:
        target = nn.functional.one_hot(records, n_records).bool().unsqueeze(1)
        return train_record_routers("span", vocabulary(setting), read, {NAME: target}, setting.least_steps)[NAME]

    return Lookup(learn(tokens, pointers), learn(asking(tokens, pointers), values))


@lru_cache(maxsize=2)
def annotated_lookup(setting: Setting, n: int) -> Lookup:
    """From ``n`` annotated lessons."""
    lessons = draw_chains(setting, RECORDS, range(n), learning=True)
    pointers, values = ([getattr(lesson, name) for lesson in lessons] for name in PARTS[:2])
    return train_lookup(setting, lessons, torch.tensor(pointers), torch.tensor(values))


@lru_cache(maxsize=1)
def recovered_lookup(scale: str, setting: Setting) -> Lookup:
    """From the lessons' drops alone."""
    n = setting.hop_lessons
    examples = partial(draw_chains, setting, RECORDS, learning=True)
    drop = labelled(scale, setting, "two_hop", RECOVERED, examples, n)
    lessons = examples(range(n))
    pairs = top_k(drop, 2)
    ordered = [
        in_order(lesson, sorted(row.nonzero().flatten().tolist())) for lesson, row in zip(lessons, pairs, strict=True)
    ]
    pointers, values = torch.tensor(ordered).T
    return train_lookup(setting, lessons, pointers, values)


def in_order(example: Example, pair: list[int]) -> list[int]:
    """The record with more of the question's words first."""
    question = set(example.tokens[example.query.start : example.query.stop].tolist())
    common = set.intersection(*(record_words(example, i) for i in range(len(example.blocks))))
    return sorted(pair, key=lambda i: -len((record_words(example, i) - common) & question))


def record_words(example: Example, record: int) -> set[int]:
    span = example.blocks[record]
    return set(example.tokens[span.start : span.stop].tolist())


def jobs(scale: str) -> Jobs:
    """Per model: the curve, then the answers part by part."""
    made: Jobs = {}
    for setting in SETTINGS[scale]:
        if setting.hops:
            made[f"{NAME}/{setting.name}/recall"] = partial(run_recall, scale, setting)
            for part, numbers in parts(setting.hops, setting.part):
                made[f"{NAME}/{setting.name}/routed-{part}"] = partial(run_routed, scale, setting, part, numbers)
    return made


def run_recall(scale: str, setting: Setting) -> RunResult:
    """Both records kept, by annotated lessons."""
    started = time.monotonic()
    examples = draw_chains(setting, RECORDS, range(TRIED[scale]))
    metrics: list[Metric | None] = []
    for n in CURVE[scale]:
        kept = [annotated_lookup(setting, n).keep(example) for example in examples]
        metrics += chain_recalls(examples, kept, [True] * len(examples), lessons=str(n), label=ANNOTATED)
    return _result(scale, setting, started, len(examples), metrics, kind="recall")


def run_routed(scale: str, setting: Setting, part: int, numbers: range) -> RunResult:
    """Answers from what the two passes keep, of solved examples and of all."""
    started = time.monotonic()
    examples = draw_chains(setting, RECORDS, numbers)
    routers = {ANNOTATED: annotated_lookup(setting, CURVE[scale][-1])}
    if setting.hop_lessons:
        routers[RECOVERED] = recovered_lookup(scale, setting)
    kept = {label: [router.keep(example) for example in examples] for label, router in routers.items()}
    judged = judge(choosing(setting, examples), lambda i, solved: {label: sets[i] for label, sets in kept.items()})
    metrics: list[Metric | None] = [share_of("dense", judged.dense)]
    for label, sets in kept.items():
        outcomes = judged.outcomes(label)
        solved: list[Outcome] = [o if s else None for o, s in zip(outcomes, judged.dense, strict=True)]
        metrics.append(share_of("routed", outcomes, label=label, among="all"))
        metrics.append(share_of("routed", solved, label=label, among="solved"))
        metrics += chain_recalls(examples, sets, [True] * len(examples), label=label, lessons="all")
    return _result(scale, setting, started, len(examples), metrics, kind="routed", part=part)


def _result(
    scale: str, setting: Setting, started: float, n: int, metrics: list[Metric | None], **at: str | int
) -> RunResult:
    counts = {"examples": n, "lessons": CURVE[scale][-1], "recovered_lessons": setting.hop_lessons}
    return record_result(NAME, scale, started, setting, "two_hop", RECORDS, metrics, counts, None, **at)


def lookup_table(results: Results) -> Table:
    """Recall by lessons, then routed accuracy."""
    groups = []
    for model in models(results):
        rows = []
        for lessons in results.coordinates("lessons", "recall"):
            for label in (ANNOTATED, RECOVERED):
                at: At = {"model": model, "label": label, "lessons": lessons}
                if count(results, "recall", of="both", **at) == "0":
                    continue
                recalls = [cell(results, "recall", of=part, **at) for part in PARTS]
                routed = ["", ""]
                if lessons == "all":
                    routed = [
                        cell(results, "routed", model=model, label=label, among=among) for among in ("solved", "all")
                    ]
                rows.append((model, label, _lessons(results, model, label, lessons), *recalls, *routed))
        groups.append(rows)
    return Table(
        name="two-hop-lookup",
        caption=(
            "A router that looks twice, two of 16 records on two hops: how often it keeps the pointer, the value and "
            "both, by training examples; and accuracy from what it keeps, of solved and of all examples."
        ),
        columns=("Model", "Label", "Lessons", "Pointer", "Value", "Both", "Routed, solved", "Routed, all"),
        rows=tuple(grouped(groups)),
        notes=(INTERVAL_NOTE, "The paper's routers: 0.21 to 0.28 routed, 0.00 to 0.13 both (tab:two-hop-router)."),
    )


def _lessons(results: Results, model: str, label: str, lessons: str) -> str:
    if lessons != "all":
        return f"{int(lessons):,}"
    counts = results.run(model=model, kind="routed").counts
    return f"{counts['lessons' if label == ANNOTATED else 'recovered_lessons']:,}, routed"


def lookup_claims(results: Results) -> list[Claim]:
    """A success on solved examples, per model and label."""
    claims = []
    for model in filter(partial(solves, results), models(results)):
        for label in (ANNOTATED, RECOVERED):
            metric = pooled_share(results, "routed", model=model, label=label, among="solved")
            if metric:
                text = f"Two passes route two hops, {label} labels ({model}): at least {BAR} of solved"
                claims.append(bar_claim(text, "0.21 to 0.28 (one pass)", metric, BAR, "solved"))
    return claims


EXPERIMENT = Experiment(
    NAME,
    place=72,
    jobs=jobs,
    reports=(Report("A router that looks twice, on two hops", "pretrained", lookup_table, beyond=True),),
    claims=lookup_claims,
)

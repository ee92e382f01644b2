"""How eviction is run: one result per part and policy, so that a new policy is run alone.

    eviction/<model>/lines/<task>-<length>-part<n>/dense      what the model answers from everything, and two checks
    eviction/<model>/lines/<task>-<length>-part<n>/<policy>   what it still answers, in its regimes and all modes

The policies are those of ``POLICIES``, in the regimes they serve; the routers from every seed; ``oracle``, which is
handed the evidence; and ``kvzip_tokens``, KVzip key by key. Each result has the outcome of every question. Blocks are
lines; tracked results without ``lines`` in their path are of an earlier protocol (see ``pool``).

The chat prefix stays visible and is the attention sink, so the first block is not protected here and every block of
the budget is the policy's own.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Reference
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import loaded, short_name
from keepset.paper.eviction.columns import CAUSAL, KVZIP_TOKENS, MODES, ORACLE
from keepset.paper.eviction.documents import EVALUATION_RUN, GENERATED, Part, Reading, readings
from keepset.paper.eviction.paper_numbers import BUDGETS, MAIN_BUDGET
from keepset.paper.eviction.reader import answers_masked
from keepset.paper.eviction.routers import (
    REGIMES,
    TARGETS,
    TASKS,
    TRAINING_RUN,
    Lessons,
    chosen_steps,
    eviction_routers,
    routers_folder,
)
from keepset.paper.eviction.tally import Outcome, Tally, share_of
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.policies import (
    BM25,
    POLICIES,
    Context,
    KVzip,
    Oracle,
    Policy,
    QuestionLikelihood,
    Routed,
    build_policy,
    score_checked,
)
from keepset.pruning.budget import Budget, rounded_up, select
from keepset.routers.block import Regime
from keepset.text.long_context import document_seed

NAME = "eviction"
DENSE = "dense"


@dataclass(frozen=True)
class Setting:
    """What is run on one model."""

    model: str
    lengths: tuple[tuple[int, int], ...]
    """Tokens of a document, and how many parts."""
    documents: int
    """In a part."""
    lessons: Lessons
    widest_read: float
    """The largest budget in the modes that read what is kept anew: half of the blocks cost half a prefill a policy."""
    quantize: Quantize | None = None
    regimes: tuple[Regime, ...] = REGIMES

    @property
    def short_name(self) -> str:
        return short_name(self.model, self.quantize)


PAPER_LESSONS = Lessons(500, 500, 60, length=4_096)
OTHER_MODELS = ("Qwen/Qwen2.5-3B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-32B-Instruct")
"""The paper's second scale, second family and largest scale."""

SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (Setting("tiny", ((512, 1),), 2, Lessons(2, 1, 1, (2, 5)), 0.5),),
    "small": (
        Setting(
            "smollm2-135m-instruct", ((1_024, 8), (2_048, 8)), 4, Lessons(32, 192, 8), 0.25, regimes=("pre_query",)
        ),
        Setting(
            "qwen2.5-coder-1.5b-instruct",
            ((1_024, 15), (2_048, 15)),
            2,
            Lessons(32, 192, 8),
            0.25,
            quantize="int8",
            regimes=("pre_query",),
        ),
    ),
    "paper": (
        *(Setting(model, ((8_192, 1), (16_384, 1)), 60, PAPER_LESSONS, 0.5) for model in OTHER_MODELS),
        Setting("Qwen/Qwen2.5-7B-Instruct", ((8_192, 1), (16_384, 1), (32_768, 1)), 60, PAPER_LESSONS, 0.5),
    ),
}
"""By scale; last the model whose numbers stand beside the paper's main tables. On a CPU the question is never known."""


ASK = frozenset(policy.name for policy in (BM25, QuestionLikelihood))
"""Policies that rank nothing without a question."""


def contenders(setting: Setting) -> list[str]:
    """Every policy that is compared in one of its regimes."""
    silent = ASK if "query_aware" not in setting.regimes else frozenset()
    return [*TARGETS["pre_query"], *(name for name in POLICIES if name not in silent), ORACLE.policy]


def jobs(scale: str) -> Jobs:
    """One result per part and policy; the policies of a part one after another."""
    found: Jobs = {}
    for setting in SETTINGS[scale]:
        for part in parts(setting):
            folder = f"{NAME}/{setting.short_name}/lines/{part.task}-{part.length}-part{part.number}"
            found[f"{folder}/{DENSE}"] = partial(measure_dense, scale, setting, part)
            for policy in contenders(setting):
                found[f"{folder}/{policy}"] = partial(measure_policy, scale, setting, part, policy)
            found[f"{folder}/{KVZIP_TOKENS.policy}"] = partial(measure_tokens, scale, setting, part)
    return found


def parts(setting: Setting) -> Iterator[Part]:
    """In the order in which they are run, which may stop anywhere."""
    for number in range(max(n for _, n in setting.lengths)):
        for length, n in setting.lengths:
            if number < n:
                yield from (Part(setting.model, t, length, setting.documents, number, setting.quantize) for t in TASKS)


def measure_dense(scale: str, setting: Setting, part: Part) -> RunResult:
    """What the shares of every policy are of; whether a budget holds all evidence; and the check of ``global``."""
    started = time.monotonic()
    model, _ = loaded(part.model, setting.quantize)
    reference = Reference(model)
    solved: dict[str, list[Outcome]] = defaultdict(list)
    fits: dict[tuple[str, float], list[Outcome]] = defaultdict(list)
    equal: list[Outcome] = []
    for reading in readings(part):
        evidence, n_blocks = len(reading.document.evidence), len(reading.document.blocks)
        for condition in part.conditions:
            solved[condition].append(condition in reading.asked)
            for budget in BUDGETS:
                fit = evidence <= room(budget, n_blocks)
                fits[condition, budget].append(fit if condition in reading.asked else None)
        judged = part.task in reading.asked and part.task not in GENERATED
        equal.append(_equals_mask(scale, setting, reading, reading.asked[part.task], reference) if judged else None)
    metrics = [share_of("dense", outcomes, condition=condition) for condition, outcomes in solved.items()]
    metrics += [share_of("feasible", found, condition=c, budget=budget) for (c, budget), found in fits.items()]
    metrics.append(share_of("global_equals_mask", equal, condition=part.task))
    return _result(scale, started, setting, part, {}, (metric for metric in metrics if metric))


def _equals_mask(scale: str, setting: Setting, reading: Reading, asked: int, reference: Reference) -> bool:
    """Dropping blocks has to be the mask operator: the same judgement on what the causal router keeps."""
    scores = rankings(scale, setting, reading, CAUSAL.policy, None)[CAUSAL.router_seed]
    keep = best_blocks(scores, MAIN_BUDGET)
    masked = answers_masked(reference, reading.document.questions[asked], keep)
    return masked == reading.reader.answers(asked, keep, "global")


Cell = tuple[str, Regime, str, int | None, float]
"""Condition, regime, mode, router seed, budget."""
Judged = tuple[bool, bool | None]
"""Still answered, and all evidence kept (None where blocks are not kept whole)."""


def measure_policy(scale: str, setting: Setting, part: Part, policy: str) -> RunResult:
    """One policy in its regimes, of those that are run, and all modes on the documents of one part."""
    started = time.monotonic()
    outcomes: list[dict[Cell, Judged]] = []
    for reading in readings(part):
        found: dict[Cell, Judged] = {}
        blind = rankings(scale, setting, reading, policy, None) if reading.asked else {}
        for condition, asked in reading.asked.items():
            for regime in setting.regimes:
                scores = blind if regime == "pre_query" else rankings(scale, setting, reading, policy, asked)
                judged = judge(reading, asked, scores, setting.widest_read)
                found |= {
                    (condition, regime, mode, seed, budget): each for (mode, seed, budget), each in judged.items()
                }
        outcomes.append(found)
    return _result(scale, started, setting, part, {"policy": policy}, tallied(outcomes))


def measure_tokens(scale: str, setting: Setting, part: Part) -> RunResult:
    """KVzip as its users run it: the best keys of all layers and heads together, whatever block they are in."""
    started = time.monotonic()
    model, tokenizer = loaded(part.model, setting.quantize)
    outcomes: list[dict[Cell, Judged]] = []
    for reading in readings(part):
        found: dict[Cell, Judged] = {}
        document = reading.document
        with reading.shared():
            context = Context(model, document.tokens, document.blocks)
            scores = KVzip(tokenizer).token_scores(context) if reading.asked else None
        if scores is not None:
            first, stop = document.blocks[0].start, document.blocks[-1].stop
            ranked = scores[..., first:stop].flatten().argsort(descending=True, stable=True)
            for budget in BUDGETS:
                gone = torch.ones(len(ranked), dtype=torch.bool)
                gone[ranked[: rounded_up(budget, len(ranked))]] = False
                dropped = torch.zeros(scores.shape, dtype=torch.bool)
                dropped[..., first:stop] = gone.view(*scores.shape[:2], -1)
                for condition, asked in reading.asked.items():
                    answered = reading.reader.answers_without(asked, list(dropped))
                    found[condition, "pre_query", "post_prefill", None, budget] = answered, None
        outcomes.append(found)
    return _result(scale, started, setting, part, {"policy": KVZIP_TOKENS.policy}, tallied(outcomes))


def tallied(outcomes: Sequence[Mapping[Cell, Judged]]) -> list[Metric]:
    """Shares of every cell, document by document."""
    metrics: list[Metric] = []
    for cell in dict.fromkeys(cell for found in outcomes for cell in found):
        tally = Tally()
        for found in outcomes:
            tally.add(*found.get(cell, (None, None)))
        condition, regime, mode, seed, budget = cell
        seeded: At = {} if seed is None else {"router_seed": seed}
        metrics += tally.metrics(condition=condition, regime=regime, mode=mode, **seeded, budget=budget)
    return metrics


def rankings(scale: str, setting: Setting, reading: Reading, name: str, asked: int | None) -> dict[int | None, Tensor]:
    """Router seed (None: not a router) -> (N,) scores, with the question ``asked`` or before any.

    Empty where the policy does not serve the regime.
    """
    model, tokenizer = loaded(setting.model, setting.quantize)
    document = reading.document
    regime: Regime = "pre_query" if asked is None else "query_aware"
    question = None if asked is None else document.questions[asked]
    policies: dict[int | None, Policy]
    if name == ORACLE.policy:
        policies = {None: Oracle(document.evidence if question is None else question.evidence)}
    elif name in POLICIES:
        policies = {None: build_policy(name, tokenizer)}
    else:
        policies = routed(scale, setting)[regime].get(name, {})
    query = None if question is None else question.tokens[question.query.start : question.query.stop]
    with reading.shared():
        context = Context(model, document.tokens, document.blocks, query)
        return {seed: score_checked(policy, context) for seed, policy in policies.items() if regime in policy.regimes}


@lru_cache(maxsize=1)
def routed(scale: str, setting: Setting) -> dict[Regime, dict[str, dict[int | None, Policy]]]:
    """Regime -> arm -> seed -> router."""
    model, tokenizer = loaded(setting.model, setting.quantize)
    folder = routers_folder(scale, setting.short_name)
    trained = eviction_routers(folder, model, tokenizer, setting.lessons, setting.regimes)
    return {
        regime: {target: {seed: Routed(router) for seed, router in enumerate(found)} for target, found in arms.items()}
        for regime, arms in trained.items()
    }


def judge(
    reading: Reading, asked: int, scores: dict[int | None, Tensor], widest_read: float
) -> dict[tuple[str, int | None, float], Judged]:
    """(Mode, router seed, budget) -> still answered, all evidence kept. Keep sets of a mode are read together."""
    evidence = reading.document.questions[asked].evidence
    found: dict[tuple[str, int | None, float], Judged] = {}
    for mode in MODES:
        budgets = [budget for budget in BUDGETS if mode == "post_prefill" or budget <= widest_read]
        keeps = {(seed, budget): best_blocks(ranked, budget) for seed, ranked in scores.items() for budget in budgets}
        reading.reader.read(asked, keeps.values(), mode)
        for (seed, budget), keep in keeps.items():
            found[mode, seed, budget] = (reading.reader.answers(asked, keep, mode), evidence <= keep)
    return found


def best_blocks(scores: Tensor, budget: float) -> KeepSet:
    return select(scores, [1] * len(scores), Budget.share_of_blocks(budget), frozenset())


def room(budget: float, n_blocks: int) -> int:
    """Blocks that a budget holds."""
    return Budget.share_of_blocks(budget).limit([1] * n_blocks)


def _result(scale: str, started: float, setting: Setting, part: Part, at: At, metrics: Iterable[Metric]) -> RunResult:
    place: At = {"model": setting.short_name, "length": part.length, "task": part.task, "part": part.number}
    steps = {}
    if at.get("policy") in TARGETS["pre_query"]:
        folder = routers_folder(scale, setting.short_name)
        found = {regime: chosen_steps(folder, regime).get(str(at["policy"])) for regime in setting.regimes}
        steps = {f"{regime}_steps": number for regime, number in found.items() if number is not None}
    return run_result(
        NAME,
        scale,
        started,
        at=place | {"blocks": "line"} | at,
        config={
            "model": setting.model,
            "quantize": setting.quantize,
            "blocks": "line",
            "budgets": list(BUDGETS),
            "widest_read": setting.widest_read,
            "train_length": setting.lessons.length,
            "pre_query_documents": setting.lessons.pre_query,
            "query_aware_documents": setting.lessons.query_aware,
            "choosing_documents": setting.lessons.choosing,
            "steps_tried": list(setting.lessons.steps),
        },
        seeds={
            "documents": document_seed(seeds.EVALUATION, EVALUATION_RUN, part.task, part.length),
            "router_documents": seeds.ROUTER_DOCUMENTS.seed(TRAINING_RUN),
        },
        counts={"documents": part.documents, **steps},
        metrics=metrics,
    )

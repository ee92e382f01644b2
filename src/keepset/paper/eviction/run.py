"""How eviction is run: one result per part and policy, so that a new policy is run alone.

    eviction/<model>/<task>-<length>-part<number>/dense      what the model answers from everything, and two checks
    eviction/<model>/<task>-<length>-part<number>/<policy>   what it still answers, in both regimes and both modes

The policies are those of ``POLICIES``, in the regimes they serve; the routers (``causal`` from every seed before the
question, else seed 0); and ``oracle``, which is handed the evidence. Each result has the outcome of every question.

The chat prefix stays visible and is the attention sink, so the first block is not protected here and every block of
the budget is the policy's own.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from torch import Tensor

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Reference
from keepset.paper.bench.models import loaded
from keepset.paper.eviction.columns import CAUSAL, MODES, ORACLE
from keepset.paper.eviction.documents import GENERATED, Part, Reading, readings
from keepset.paper.eviction.paper_numbers import BUDGETS, MAIN_BUDGET
from keepset.paper.eviction.reader import answers_masked
from keepset.paper.eviction.routers import TARGETS, TASKS, TRAIN_LENGTH, eviction_routers
from keepset.paper.eviction.tally import Outcome, Tally, share_of
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.policies import POLICIES, Context, Oracle, Policy, Routed, build_policy, score_checked
from keepset.pruning.budget import Budget, select
from keepset.routers.block import Regime
from keepset.text.document import BLOCK_TOKENS

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
    pre_query_documents: int
    """Per task, for the routers of that regime; they are the first ones of both where the numbers differ."""
    query_aware_documents: int
    steps: int
    """Of the routers' training."""
    widest_global: float
    """The largest budget that runs in the mode ``global``, where half of the blocks cost half a prefill per policy."""

    @property
    def short_name(self) -> str:
        return self.model.split("/")[-1]


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (Setting("tiny", ((512, 1),), 2, 2, 1, 5, 0.5),),
    "small": (
        Setting("smollm2-135m-instruct", ((512, 4), (1_024, 4), (2_048, 2), (4_096, 1)), 4, 128, 48, 300, 0.1),
        Setting("qwen2.5-coder-1.5b-instruct", ((1_024, 8), (2_048, 4)), 2, 48, 48, 300, 0.1),
    ),
    "paper": (Setting("Qwen/Qwen2.5-7B-Instruct", ((8_192, 1), (16_384, 1), (32_768, 1)), 60, 500, 500, 300, 0.5),),
}
"""By scale; the largest model last."""


def contenders() -> list[str]:
    """Every policy that is compared."""
    return [*TARGETS, *POLICIES, ORACLE.policy]


def jobs(scale: str) -> Jobs:
    """One result per part and policy; the policies of a part one after another."""
    found: Jobs = {}
    for setting in SETTINGS[scale]:
        for part in parts(setting):
            folder = f"{NAME}/{setting.short_name}/{part.task}-{part.length}-part{part.number}"
            found[f"{folder}/{DENSE}"] = partial(measure_dense, scale, setting, part)
            for policy in contenders():
                found[f"{folder}/{policy}"] = partial(measure_policy, scale, setting, part, policy)
    return found


def parts(setting: Setting) -> Iterator[Part]:
    """In the order in which they are run, which may stop anywhere."""
    for number in range(max(n for _, n in setting.lengths)):
        for length, n in setting.lengths:
            if number < n:
                yield from (Part(setting.model, task, length, setting.documents, number) for task in TASKS)


def measure_dense(scale: str, setting: Setting, part: Part) -> RunResult:
    """What the shares of every policy are of; whether a budget holds all evidence; and the check of ``global``."""
    started = time.monotonic()
    model, _ = loaded(part.model)
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


def measure_policy(scale: str, setting: Setting, part: Part, policy: str) -> RunResult:
    """One policy in its regimes and both modes on the documents of one part."""
    started = time.monotonic()
    outcomes: list[dict[Cell, tuple[bool, bool]]] = []
    for reading in readings(part):
        found: dict[Cell, tuple[bool, bool]] = {}
        blind = rankings(scale, setting, reading, policy, None) if reading.asked else {}
        for condition, asked in reading.asked.items():
            aware = rankings(scale, setting, reading, policy, asked)
            ranked: dict[Regime, dict[int | None, Tensor]] = {"pre_query": blind, "query_aware": aware}
            for regime, scores in ranked.items():
                judged = judge(reading, asked, scores, setting.widest_global)
                found |= {
                    (condition, regime, mode, seed, budget): each for (mode, seed, budget), each in judged.items()
                }
        outcomes.append(found)
    metrics: list[Metric] = []
    for cell in dict.fromkeys(cell for found in outcomes for cell in found):
        tally = Tally()
        for found in outcomes:
            tally.add(*found.get(cell, (None, None)))
        condition, regime, mode, seed, budget = cell
        seeded: At = {} if seed is None else {"router_seed": seed}
        metrics += tally.metrics(condition=condition, regime=regime, mode=mode, **seeded, budget=budget)
    return _result(scale, started, setting, part, {"policy": policy}, metrics)


def rankings(scale: str, setting: Setting, reading: Reading, name: str, asked: int | None) -> dict[int | None, Tensor]:
    """Router seed (None: not a router) -> (N,) scores, with the question ``asked`` or before any.

    Empty where the policy does not serve the regime.
    """
    model, tokenizer = loaded(setting.model)
    document = reading.document
    regime: Regime = "pre_query" if asked is None else "query_aware"
    question = None if asked is None else document.questions[asked]
    policies: dict[int | None, Policy]
    if name == ORACLE.policy:
        policies = {None: Oracle(document.evidence if question is None else question.evidence)}
    elif name in POLICIES:
        policies = {None: build_policy(name, tokenizer)}
    else:
        policies = routed(scale, setting)[regime][name]
    query = None if question is None else question.tokens[question.query.start : question.query.stop]
    with reading.shared():
        context = Context(model, document.tokens, document.blocks, query)
        return {seed: score_checked(policy, context) for seed, policy in policies.items() if regime in policy.regimes}


@lru_cache(maxsize=1)
def routed(scale: str, setting: Setting) -> dict[Regime, dict[str, dict[int | None, Policy]]]:
    """Regime -> arm -> seed -> router: the first causal and imitation one; pre-query every causal one."""
    model, tokenizer = loaded(setting.model)
    documents: dict[Regime, int] = {
        "pre_query": setting.pre_query_documents,
        "query_aware": setting.query_aware_documents,
    }
    trained = eviction_routers(scale, setting.short_name, model, tokenizer, documents, setting.steps)
    return {
        regime: {
            target: {
                seed: Routed(router)
                for seed, router in enumerate(found)
                if seed == 0 or (target == CAUSAL.policy and regime == "pre_query")
            }
            for target, found in by_target.items()
        }
        for regime, by_target in trained.items()
    }


def judge(
    reading: Reading, asked: int, scores: dict[int | None, Tensor], widest_global: float
) -> dict[tuple[str, int | None, float], tuple[bool, bool]]:
    """(Mode, router seed, budget) -> still answered, all evidence kept. Keep sets of a mode are read together."""
    evidence = reading.document.questions[asked].evidence
    found: dict[tuple[str, int | None, float], tuple[bool, bool]] = {}
    for mode in MODES:
        budgets = [budget for budget in BUDGETS if mode != "global" or budget <= widest_global]
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
    n_blocks = part.length // BLOCK_TOKENS
    place: At = {"model": setting.short_name, "length": part.length, "task": part.task, "part": part.number}
    return run_result(
        NAME,
        scale,
        started,
        at=place | at,
        config={
            "model": setting.model,
            "blocks": n_blocks,
            "budgets": list(BUDGETS),
            "kept_blocks": [room(budget, n_blocks) for budget in BUDGETS],
            "widest_global": setting.widest_global,
            "train_length": TRAIN_LENGTH,
            "pre_query_documents": setting.pre_query_documents,
            "query_aware_documents": setting.query_aware_documents,
        },
        seeds={"documents": seeds.EVALUATION.seed(1), "router_documents": seeds.ROUTER_DOCUMENTS.seed(0)},
        counts={"documents": part.documents, "steps": setting.steps},
        metrics=metrics,
    )

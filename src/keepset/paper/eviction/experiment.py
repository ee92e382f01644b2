"""Long-context eviction (appendix "Block eviction at pretrained scale") at lengths a CPU can run.

Gives ``tab:qa``, ``tab:pq8k``, ``tab:pq16k``, ``tab:pq32k`` (at our lengths), ``tab:pq-staleany``, ``tab:pq-seeds``,
``tab:restkv`` and ``fig:eviction-scale``. One result per model, task, length and part: a part is a few documents, so
that a run can be stopped, and more parts are more examples.

The chat prefix stays visible and is the attention sink, so the first block is not protected here and every block of
the budget is the policy's own.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.interventions import Reference
from keepset.models.loading import load_model
from keepset.paper.bench.engine import tiny_model
from keepset.paper.eviction.reader import Reader, Tally, answers_masked
from keepset.paper.eviction.routers import TASKS, TRAIN_LENGTH, eviction_routers
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion
from keepset.policies import (
    H2O,
    Context,
    KVzip,
    MomentKV,
    Oracle,
    Policy,
    Random,
    Recency,
    ReSTKV,
    SnapKV,
    score_checked,
)
from keepset.policies.routed import Routed
from keepset.pruning.budget import Budget, select
from keepset.pruning.cache import EvictionMode
from keepset.readouts import shared_layers
from keepset.routers.block import Regime
from keepset.text.document import Document
from keepset.text.long_context import sample_documents

EXPERIMENT = "eviction"
BUDGETS = (0.1, 0.25, 0.5)
MODES: tuple[EvictionMode, ...] = ("global", "post_prefill")
CONTROLS = {"register_log": "register_log_any"}
"""A task whose documents are asked a second question: any register, not the corrected one."""
GENERATED = frozenset({"variable_tracking"})
"""Tasks whose answers come in an order of the model's own."""


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


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (Setting("tiny", ((512, 1),), 2, 2, 1, 5, 0.5),),
    "small": (
        Setting("smollm2-135m-instruct", ((512, 4), (1_024, 4), (2_048, 2), (4_096, 1)), 4, 128, 48, 300, 0.1),
        Setting("qwen2.5-coder-1.5b-instruct", ((1_024, 8), (2_048, 4)), 2, 48, 48, 300, 0.1),
    ),
    "paper": (Setting("Qwen/Qwen2.5-7B-Instruct", ((8_192, 1), (16_384, 1), (32_768, 1)), 60, 500, 500, 300, 0.5),),
}


def jobs(scale: str) -> Jobs:
    """One result per model, task, length and part."""
    return {
        f"eviction/{setting.model.split('/')[-1]}/{task}-{length}-part{part}": partial(
            evict, scale, setting, task, length, part
        )
        for setting in SETTINGS[scale]
        for part in range(max(parts for _, parts in setting.lengths))  # first parts first: a run may stop anywhere
        for length, parts in setting.lengths
        if part < parts
        for task in TASKS
    }


def evict(scale: str, setting: Setting, task: str, length: int, part: int) -> RunResult:
    """Every policy in both regimes and modes on the documents of one part."""
    started = time.monotonic()
    model, tokenizer = loaded(setting.model)
    work = Work(setting, task, model, tokenizer, routed(scale, setting))
    for documents in part_documents(tokenizer, task, length, setting.documents, part):
        work.add(documents)
    return run_result(
        EXPERIMENT,
        scale,
        started,
        config={
            "model": setting.model,
            "task": task,
            "length": length,
            "part": part,
            "blocks": length // 32,
            "budgets": list(BUDGETS),
            "widest_global": setting.widest_global,
            "train_length": TRAIN_LENGTH,
            "pre_query_documents": setting.pre_query_documents,
            "query_aware_documents": setting.query_aware_documents,
        },
        seeds={"documents": seeds.EVALUATION.seed(1), "router_documents": seeds.ROUTER_DOCUMENTS.seed(0)},
        counts={"documents": setting.documents, "steps": setting.steps},
        metrics=work.metrics(),
    )


@lru_cache(maxsize=1)
def loaded(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, once for all jobs of a run; ``tiny`` is an untrained one."""
    return tiny_model() if name == "tiny" else load_model(name)


@lru_cache(maxsize=1)
def routed(scale: str, setting: Setting) -> dict[Regime, dict[str, Policy]]:
    """The routers of every regime as policies: the first causal and imitation one; pre-query every causal one."""
    model, tokenizer = loaded(setting.model)
    name = setting.model.split("/")[-1]
    documents: dict[Regime, int] = {
        "pre_query": setting.pre_query_documents,
        "query_aware": setting.query_aware_documents,
    }
    trained = eviction_routers(scale, name, model, tokenizer, documents, setting.steps)
    return {
        regime: {
            f"{target}_r{seed}": Routed(router)
            for target, found in by_target.items()
            for seed, router in enumerate(found)
            if seed == 0 or (target == "causal" and regime == "pre_query")
        }
        for regime, by_target in trained.items()
    }


def part_documents(
    tokenizer: PreTrainedTokenizerBase, task: str, length: int, n: int, part: int
) -> list[dict[str, Document]]:
    """Condition -> document, once per document; a control has the same text and asks something else."""
    conditions = [task, CONTROLS[task]] if task in CONTROLS else [task]
    drawn = {
        condition: sample_documents(condition, tokenizer, seeds.EVALUATION.seed(1), length, (part + 1) * n)[part * n :]
        for condition in conditions
    }
    return [dict(zip(drawn, row, strict=True)) for row in zip(*drawn.values(), strict=True)]


class Work:
    """Counts what every policy preserves, document by document."""

    def __init__(
        self,
        setting: Setting,
        task: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        routers: dict[Regime, dict[str, Policy]],
    ) -> None:
        self.setting, self.task, self.model, self.tokenizer, self.routers = setting, task, model, tokenizer, routers
        self.reference = Reference(model)
        self.documents: dict[str, int] = defaultdict(int)
        self.solved: dict[str, int] = defaultdict(int)
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        self.causal_ahead: dict[str, int] = defaultdict(int)
        self.feasible: dict[str, int] = defaultdict(int)
        self.equal_to_mask: dict[str, int] = defaultdict(int)

    def add(self, conditions: dict[str, Document]) -> None:
        """One document, with the question of every condition that the model answers from all of it."""
        with shared_layers():
            self._add(conditions)

    def _add(self, conditions: dict[str, Document]) -> None:
        document = conditions[self.task]
        reader = Reader(self.model, self.tokenizer, document, generated=self.task in GENERATED)
        asked = {}
        for condition, same in conditions.items():
            self.documents[condition] += 1
            if reader.answers(same.asked, reader.everything, "post_prefill"):
                self.solved[condition] += 1
                asked[condition] = same.asked
        if not asked:
            return
        context = Context(self.model, document.tokens, document.blocks)
        scores = {name: score_checked(policy, context) for name, policy in self._pre_query(document).items()}
        for condition, number in asked.items():
            self._count(reader, condition, number, "pre_query", scores)
            for budget in BUDGETS:
                room = Budget.share_of_blocks(budget).limit([1] * len(document.blocks))
                self.feasible[f"{condition}/feasible/{budget:g}"] += len(document.evidence) <= room
        for condition, number in asked.items():
            self._count(reader, condition, number, "query_aware", self._query_aware(document, number))
        if self.task in asked:
            self._check_mask(reader, asked[self.task], scores["causal_r0"])

    def _pre_query(self, document: Document) -> dict[str, Policy]:
        return {
            **self.routers["pre_query"],
            "h2o": H2O(),
            "snapkv": SnapKV(),
            "momentkv": MomentKV(),
            "restkv": ReSTKV(),
            "kvzip": KVzip(self.tokenizer),
            "recency": Recency(),
            "random": Random(),
            "oracle": Oracle(document.evidence),
        }

    def _query_aware(self, document: Document, asked: int) -> dict[str, Tensor]:
        question = document.questions[asked]
        query = question.tokens[question.query.start : question.query.stop]
        policies: dict[str, Policy] = {
            **self.routers["query_aware"],
            "snapkv": SnapKV(),
            "momentkv": MomentKV(),
            "restkv": ReSTKV(),
            "oracle": Oracle(question.evidence),
        }
        context = Context(self.model, document.tokens, document.blocks, query)
        return {name: score_checked(policy, context) for name, policy in policies.items()}

    def _count(self, reader: Reader, condition: str, asked: int, regime: Regime, scores: Mapping[str, Tensor]) -> None:
        evidence = reader.document.questions[asked].evidence
        for mode in MODES:
            budgets = [budget for budget in BUDGETS if mode != "global" or budget <= self.setting.widest_global]
            keeps = {(name, b): self._select(ranked, b) for name, ranked in scores.items() for b in budgets}
            reader.read(asked, keeps.values(), mode)
            for (name, budget), keep in keeps.items():
                cell = f"{condition}/{regime}/{mode}/{name}/{budget:g}"
                right = reader.answers(asked, keep, mode)
                self.tallies[cell].add(right, evidence <= keep)
                causal_right = reader.answers(asked, keeps["causal_r0", budget], mode)
                self.causal_ahead[cell] += causal_right and not right

    def _check_mask(self, reader: Reader, asked: int, scores: Tensor) -> None:
        """Dropping blocks has to be the mask operator: the same judgement on every example."""
        if self.task in GENERATED:
            return
        keep = self._select(scores, BUDGETS[0])
        masked = answers_masked(self.reference, reader.document.questions[asked], keep)
        self.equal_to_mask[self.task] += masked == reader.answers(asked, keep, "global")

    @staticmethod
    def _select(scores: Tensor, budget: float) -> frozenset[int]:
        return select(scores, [1] * len(scores), Budget.share_of_blocks(budget), frozenset())

    def metrics(self) -> list[Metric]:
        metrics = [proportion(f"{name}/dense", self.solved[name], n) for name, n in self.documents.items()]
        for name, n in self.solved.items():
            metrics += [proportion(key, count, n) for key, count in self.feasible.items() if key.split("/")[0] == name]
        metrics += [
            proportion(f"{name}/global_equals_mask", n, self.solved[name]) for name, n in self.equal_to_mask.items()
        ]
        for name, tally in self.tallies.items():
            metrics += tally.metrics(name)
            metrics.append(proportion(f"{name}/causal_ahead", self.causal_ahead[name], tally.kept + tally.dropped))
        return metrics

"""Block routers for long-context eviction: trained once per model at the shortest length, on all tasks together.

    causal      what the generator says: pre-query the blocks of every question that could be asked, query-aware those
                of the question that is
    imitation   the attention every block receives
    twin        what KVzip would keep at the main budget, pre-query: the causal arm with another label

All arms share documents, features, order and initialization; steps are chosen for each by one rule, on documents that
are never evaluated: of ``STEPS`` those after which the evidence of most questions is among the best blocks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.files import write_json
from keepset.jobs.held_out import HeldOutQuestion
from keepset.paper.eviction.columns import ROUTER_SEEDS
from keepset.paper.eviction.paper_numbers import MAIN_BUDGET
from keepset.policies import Context, KVzip
from keepset.pruning.budget import Budget, select
from keepset.readouts import shared_layers
from keepset.routers.block import BlockRouter, ReadModel, Regime, Target, load_block_router, score_features
from keepset.routers.block_training import train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.features import early_layers
from keepset.text.document import Document
from keepset.text.long_context import document_seed, sample_documents

TASKS = ("single", "multikey", "variable_tracking", "register_log")
TRAIN_LENGTH = 512
REGIMES: tuple[Regime, ...] = get_args(Regime)
TARGETS: dict[Regime, tuple[Target, ...]] = {
    "pre_query": ("causal", "imitation", "twin"),
    "query_aware": ("causal", "imitation"),
}
TRAINING_RUN, CHOOSING_RUN = 0, 1
"""Of the seed range: documents to learn from, and documents to choose steps on."""
STEPS = (100, 300, 1_000)


@dataclass(frozen=True)
class Lessons:
    """What the routers of a model learn from."""

    pre_query: int
    """Documents per task, for the routers of that regime; they are the first ones of both where the numbers differ."""
    query_aware: int
    choosing: int
    """Documents per task on which steps are chosen."""
    steps: tuple[int, ...] = STEPS
    length: int = TRAIN_LENGTH
    """Tokens of a document."""

    def documents(self, regime: Regime) -> int:
        return self.pre_query if regime == "pre_query" else self.query_aware


def routers_folder(scale: str, model: str) -> Path:
    """Where the trained routers of a model are kept, from the root of the repository."""
    return Path("routers") / scale / model / "lines"


Trained = dict[Target, list[BlockRouter]]
"""One router per seed."""


def eviction_routers(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    lessons: Lessons,
    regimes: Sequence[Regime],
) -> dict[Regime, Trained]:
    """The saved routers of some regimes; a regime that lacks some is trained and saved now."""
    return {regime: _routers(folder / regime, model, tokenizer, regime, lessons) for regime in regimes}


def _routers(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, regime: Regime, lessons: Lessons
) -> Trained:
    folders = {target: [folder / f"{target}-{seed}" for seed in router_seeds(target)] for target in TARGETS[regime]}
    if not all(each.exists() for found in folders.values() for each in found):
        documents = router_documents(tokenizer, lessons.documents(regime), lessons.length)
        learning = router_examples(model, tokenizer, documents, regime, TARGETS[regime])
        others = router_documents(tokenizer, lessons.choosing, lessons.length, CHOOSING_RUN)
        choosing = router_examples(model, tokenizer, others, regime, ("causal",))
        chosen = {}
        for target in TARGETS[regime]:
            tried = {steps: train_arm(model, regime, learning, target, [0], steps) for steps in lessons.steps}
            kept = {steps: evidence_kept(found[0], choosing) for steps, found in tried.items()}
            chosen[target] = max(kept, key=lambda steps: (kept[steps], -steps))
            routers = train_arm(model, regime, learning, target, router_seeds(target), chosen[target])
            for router, each in zip(routers, folders[target], strict=True):
                router.save_pretrained(each)
        write_json(folder / "steps.json", chosen)
    return {target: [load_block_router(each) for each in found] for target, found in folders.items()}


def router_seeds(target: Target) -> range:
    """Only the causal arm is shown from several initializations."""
    return range(ROUTER_SEEDS if target == "causal" else 1)


def chosen_steps(folder: Path, regime: Regime) -> dict[str, int]:
    """Target -> steps, as chosen when the routers were trained."""
    found: dict[str, int] = json.loads((folder / regime / "steps.json").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Examples:
    """Documents as routers read them, and what each arm is to learn from them."""

    features: list[Tensor]
    targets: dict[Target, list[Tensor]]

    @property
    def evidence(self) -> list[Tensor]:
        """(1, N) of every document."""
        return self.targets["causal"]


def train_arm(
    model: PreTrainedModel, regime: Regime, examples: Examples, target: Target, numbers: Sequence[int], steps: int
) -> list[BlockRouter]:
    """One router per seed."""
    reads, layers = ReadModel.of(model), early_layers(model)
    targets: Mapping[Target, list[Tensor]] = {target: examples.targets[target]}
    return train_block_routers(reads, regime, layers, "line", examples.features, targets, numbers, steps)[target]


def evidence_kept(router: BlockRouter, examples: Examples) -> int:
    """Documents all of whose evidence is among the best blocks; the rule by which steps are chosen."""
    return sum(
        HeldOutQuestion(score_features(router, features[None]), evidence).keeps(MAIN_BUDGET)
        for features, evidence in zip(examples.features, examples.evidence, strict=True)
    )


def router_examples(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents: Iterable[Document],
    regime: Regime,
    targets: Sequence[Target],
) -> Examples:
    """Features of every document, and what each arm is to learn from it."""
    examples = Examples([], {target: [] for target in targets})
    labelled = [target for target in targets if target != "twin"]
    for document in documents:
        asked = document.questions[document.asked]
        question = asked.tokens[asked.query.start : asked.query.stop] if regime == "query_aware" else None
        evidence = torch.zeros(1, len(document.blocks), dtype=torch.bool)
        evidence[0, sorted(document.evidence if question is None else asked.evidence)] = True
        with shared_layers():
            example = RouterExample(document.tokens, document.blocks, evidence, question)
            read, learned = read_examples(model, [example], labelled)
            examples.features.extend(read)
            for target in labelled:
                examples.targets[target] += learned[target]
            if "twin" in examples.targets:
                examples.targets["twin"].append(kvzip_choice(model, tokenizer, document))
    return examples


def kvzip_choice(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, document: Document) -> Tensor:
    """(1, N) the blocks KVzip keeps at the main budget."""
    scores = KVzip(tokenizer).score(Context(model, document.tokens, document.blocks))
    choice = torch.zeros(1, len(scores), dtype=torch.bool)
    choice[0, sorted(select(scores, [1] * len(scores), Budget.share_of_blocks(MAIN_BUDGET), frozenset()))] = True
    return choice


def router_documents(
    tokenizer: PreTrainedTokenizerBase, per_task: int, length: int, run: int = TRAINING_RUN
) -> Iterator[Document]:
    """The same documents for every regime and target."""
    for task in TASKS:
        seed = document_seed(seeds.ROUTER_DOCUMENTS, run, task, length)
        yield from sample_documents(task, tokenizer, seed, length, per_task)

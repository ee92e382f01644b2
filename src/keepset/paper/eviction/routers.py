"""Block routers for long-context eviction: trained once per model at the shortest length, on all tasks together.

The causal target of a document is what the generator says: pre-query the blocks of every question that could be asked,
query-aware those of the question that is. The imitation target is the attention every block receives. Both arms share
documents, features, order and initialization.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.paper.eviction.columns import ROUTER_SEEDS
from keepset.readouts import shared_layers
from keepset.routers.block import BlockRouter, ReadModel, Regime, Target, load_block_router
from keepset.routers.block_training import train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.features import early_layers
from keepset.text.document import BLOCK_TOKENS, Document
from keepset.text.long_context import sample_documents

TASKS = ("single", "multikey", "variable_tracking", "register_log")
TRAIN_LENGTH = 512
REGIMES: tuple[Regime, ...] = ("pre_query", "query_aware")
TARGETS: tuple[Target, ...] = ("causal", "imitation")


def router_folder(scale: str, model: str, regime: Regime, target: Target, seed: int) -> Path:
    """Where a trained router is kept, from the root of the repository."""
    return Path("routers") / scale / model / f"{regime}-{target}-{seed}"


Trained = dict[Target, list[BlockRouter]]
"""One router per seed."""


def eviction_routers(
    scale: str,
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents_per_task: Mapping[Regime, int],
    steps: int,
) -> dict[Regime, Trained]:
    """The saved routers of every regime; those that are missing are trained and saved now."""
    folders: dict[Regime, dict[Target, list[Path]]] = {
        regime: {
            target: [router_folder(scale, name, regime, target, seed) for seed in range(ROUTER_SEEDS)]
            for target in TARGETS
        }
        for regime in REGIMES
    }
    missing = [
        regime
        for regime, by_target in folders.items()
        if not all(folder.exists() for found in by_target.values() for folder in found)
    ]
    for n in sorted({documents_per_task[regime] for regime in missing}):
        together = [regime for regime in missing if documents_per_task[regime] == n]
        for regime, (features, targets) in router_examples(model, training_documents(tokenizer, n), together).items():
            reads, layers = ReadModel.of(model), early_layers(model)
            trained = train_block_routers(
                reads, regime, layers, BLOCK_TOKENS, features, targets, range(ROUTER_SEEDS), steps
            )
            for target, routers in trained.items():
                for folder, router in zip(folders[regime][target], routers, strict=True):
                    router.save_pretrained(folder)
    return {
        regime: {target: [load_block_router(folder) for folder in found] for target, found in by_target.items()}
        for regime, by_target in folders.items()
    }


Examples = tuple[list[Tensor], dict[Target, list[Tensor]]]
"""What routers read of each document, and what both arms are to learn from it."""


def router_examples(
    model: PreTrainedModel, documents: Iterable[Document], regimes: Sequence[Regime]
) -> dict[Regime, Examples]:
    """Features and targets of every document; the regimes share the forward that reads the document."""
    examples: dict[Regime, Examples] = {regime: ([], {target: [] for target in TARGETS}) for regime in regimes}
    for document in documents:
        asked = document.questions[document.asked]
        with shared_layers():
            for regime, (features, targets) in examples.items():
                question = asked.tokens[asked.query.start : asked.query.stop] if regime == "query_aware" else None
                evidence = torch.zeros(1, len(document.blocks), dtype=torch.bool)
                evidence[0, sorted(document.evidence if question is None else asked.evidence)] = True
                example = RouterExample(document.tokens, document.blocks, evidence, question)
                read, learned = read_examples(model, [example], TARGETS)
                features += read
                for target in TARGETS:
                    targets[target] += learned[target]
    return examples


def training_documents(tokenizer: PreTrainedTokenizerBase, per_task: int) -> Iterator[Document]:
    """The same documents for every regime and target."""
    for number, task in enumerate(TASKS):
        yield from sample_documents(task, tokenizer, seeds.ROUTER_DOCUMENTS.seed(number), TRAIN_LENGTH, per_task)

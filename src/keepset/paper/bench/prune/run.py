"""What pruning saves: a document read and asked by transformers alone, against the pruner's two modes at 10 and 25 %.

Every side reads the same documents in one run, on one thread, in an order that rotates from document to document:

    prefill   the cache: of everything (dense), or of the kept blocks; how they are chosen is the router's time
    read      a question and its answer after that cache, in one forward
    answer    the same question, and as many tokens written one after another

The limit of what a budget can save is the budget itself, and the chat prefix that is always kept. Seconds are CPU
seconds of the one thread. A router's weights do not change its cost, so it is untrained. Peak memory is that of a fresh
process per side, with the router where there is one.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.paper.bench.models import TINY, loaded
from keepset.paper.bench.peak import forget_peak, in_own_process, peak_bytes
from keepset.paper.bench.timing import clock, one_thread, quartiles, ratios, rotated
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.pruning.budget import Budget, select
from keepset.pruning.cache import EvictionMode, generate, kept_positions, prefill_kept, read_after
from keepset.routers.block import BlockRouter, ReadModel, score_document
from keepset.routers.features import early_layers
from keepset.text.document import BLOCK_TOKENS, Document
from keepset.text.long_context import sample_documents

NAME = "prune"
TASK = "multikey"
QUESTION = 32
ANSWER = 16
"""Tokens; the same for every side and model."""
ROUTER = "router"


@dataclass(frozen=True)
class Setting:
    """One model at one length: one result file."""

    model: str
    length: int
    rounds: int
    """Documents."""

    @property
    def name(self) -> str:
        return f"{self.model}-{self.length}"


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (Setting(TINY, 512, 2),),
    "small": (
        *(Setting("smollm2-135m-instruct", length, 5) for length in (1_024, 2_048, 4_096)),
        *(Setting("qwen2.5-coder-1.5b-instruct", length, 2) for length in (1_024, 2_048)),
    ),
}


class Dense:
    """The whole document in transformers' own cache, asked as transformers does it: by appending to the cache."""

    def __init__(self, model: PreTrainedModel, tokens: Tensor) -> None:
        self.model, self.n_tokens = model, len(tokens)
        self.cache = model(tokens[None].to(model.device), use_cache=True, logits_to_keep=1).past_key_values

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for layer in self.cache.layers for part in (layer.keys, layer.values))

    def read(self, tokens: Tensor, rows: int) -> Tensor:
        tokens = tokens[None].to(self.model.device)
        logits: Tensor = self.model(tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=rows).logits
        return logits[0]

    def answer(self, question: Tensor, n: int) -> tuple[int, ...]:
        written: list[int] = []
        while len(written) < n:
            written.append(int(self.read(question, rows=1)[-1].argmax()))
            question = torch.tensor(written[-1:])
        return tuple(written)

    def forget(self) -> None:
        """Lets go of questions and answers."""
        self.cache.crop(self.n_tokens - self.cache.get_seq_length())  # negative: how many to remove


class Pruned:
    """What is left of a document, asked as ``PrunedContext`` does it."""

    def __init__(self, model: PreTrainedModel, document: Document, keep: KeepSet, mode: EvictionMode) -> None:
        self.model = model
        positions = kept_positions(len(document.tokens), document.blocks, keep)
        (self.cache,) = prefill_kept(model, [(document.tokens, positions)], mode)

    @property
    def n_tokens(self) -> int:
        return len(self.cache.positions)

    @property
    def n_bytes(self) -> int:
        return self.cache.n_bytes

    def read(self, tokens: Tensor, rows: int) -> Tensor:
        return read_after(self.model, self.cache, tokens, rows)[0]

    def answer(self, question: Tensor, n: int) -> tuple[int, ...]:
        return generate(self.model, self.cache, question, n, stop=frozenset())

    def forget(self) -> None:
        """Questions are never in the cache."""


@dataclass(frozen=True)
class Side:
    """Everything read, or what a mode leaves of a budget."""

    mode: EvictionMode | None = None
    budget: float = 1.0

    @property
    def name(self) -> str:
        return "dense" if self.mode is None else f"{self.mode}/{self.budget:g}"

    @property
    def at(self) -> At:
        """Its coordinates."""
        if self.mode is None:
            return {"side": "dense"}
        return {"side": "pruned", "mode": self.mode, "budget": self.budget}

    def prefill(self, model: PreTrainedModel, document: Document, scores: Tensor) -> Dense | Pruned:
        if self.mode is None:
            return Dense(model, document.tokens)
        keep = select(scores, [1] * len(scores), Budget.share_of_blocks(self.budget), frozenset())
        return Pruned(model, document, keep, self.mode)


DENSE = Side()
SIDES = {side.name: side for side in (DENSE, *(Side(m, b) for m in ("global", "post_prefill") for b in (0.1, 0.25)))}

PHASES = ("prefill", "read", "answer")
SIZED = ("kv_bytes", "tokens")
Found = dict[tuple[str, str], list[float]]
"""Name of a side and what was measured -> CPU seconds or a size, document by document."""


def jobs(scale: str) -> Jobs:
    """One result per model and length."""
    if scale not in SETTINGS:
        raise ValueError(f"scale: expected one of {', '.join(SETTINGS)}, got {scale!r}")
    return {f"{NAME}/{setting.name}": partial(run, scale, setting) for setting in SETTINGS[scale]}


def run(scale: str, setting: Setting) -> RunResult:
    """Times every side on every document, then runs each once more in a process of its own."""
    started = time.monotonic()
    model, tokenizer = loaded(setting.model)
    router = fresh_router(model)
    documents = bench_documents(tokenizer, setting)
    with one_thread():
        found = measure(model, router, documents)
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.model, "length": setting.length},
        config={
            "model": setting.model,
            "dtype": str(model.dtype).removeprefix("torch."),
            "task": TASK,
            "length": setting.length,
            "tokens": len(documents[0].tokens),
            "blocks": len(documents[0].blocks),
            "question_tokens": QUESTION,
            "answer_tokens": ANSWER,
            "router_layers": router.layers,
            "layers": model.config.get_text_config().num_hidden_layers,
            "threads": 1,
            "device": "cpu",
        },
        seeds={"evaluation": bench_seed(setting.length)},
        counts={
            "rounds": setting.rounds,
            "parameters": sum(p.numel() for p in model.parameters()),
            "router_parameters": sum(p.numel() for p in router.parameters()),
        },
        metrics=[*metrics(found), *memory_metrics({name: memory_of(setting, name) for name in SIDES})],
        command=f"keepset bench {NAME}",
    )


def bench_seed(length: int) -> int:
    """Away from the documents of the evaluation (run 1) and from the other benchmarks (runs 2 and 3)."""
    return seeds.EVALUATION.seed(4, length)


def bench_documents(tokenizer: PreTrainedTokenizerBase, setting: Setting) -> list[Document]:
    seed = bench_seed(setting.length)
    return sample_documents(TASK, tokenizer, seed, setting.length, setting.rounds, BLOCK_TOKENS)


def fresh_router(model: PreTrainedModel) -> BlockRouter:
    state = torch.random.get_rng_state()
    torch.manual_seed(seeds.ROUTER_INIT.seed(0))
    router = BlockRouter(ReadModel.of(model), "pre_query", early_layers(model), "causal", BLOCK_TOKENS).eval()
    torch.random.set_rng_state(state)
    return router


def question_of(document: Document) -> Tensor:
    """(``QUESTION``,) the document's question, repeated or cut off: what it says costs nothing."""
    question = document.questions[document.asked]
    query = question.tokens[question.query.start : question.query.stop]
    return query.repeat(-(-QUESTION // len(query)))[:QUESTION]


@torch.inference_mode()
def measure(model: PreTrainedModel, router: BlockRouter, documents: list[Document]) -> Found:
    """Every side on every document; the side that starts is another one each time."""
    found: Found = defaultdict(list)
    Dense(model, documents[0].tokens)  # the first forward pays for allocations; nobody's time
    for number, document in enumerate(documents):
        with clock(found[ROUTER, "prefill"]):
            scores = score_document(router, model, document.tokens, document.blocks)
        question = question_of(document)
        for name in rotated(list(SIDES), number):
            with clock(found[name, "prefill"]):
                left = SIDES[name].prefill(model, document, scores)
            found[name, "kv_bytes"].append(left.n_bytes)
            found[name, "tokens"].append(left.n_tokens)
            with clock(found[name, "read"]):
                left.read(torch.cat([question, question[:ANSWER]]), rows=ANSWER)
            left.forget()
            with clock(found[name, "answer"]):
                left.answer(question, ANSWER)
    return found


def metrics(found: Found) -> Iterator[Metric]:
    """Medians with quartiles, and ratios to dense taken document by document.

    Phase ``prefill_and_router`` is what a user pays before the first question; ``tokens_ratio`` is the limit.
    """
    chosen, prefill = found[ROUTER, "prefill"], found[DENSE.name, "prefill"]
    yield from quartiles("seconds", chosen, side=ROUTER, phase="prefill")
    yield from quartiles("seconds_ratio", ratios(chosen, prefill), side=ROUTER, phase="prefill")
    for name, side in SIDES.items():
        pruned = name != DENSE.name
        for phase in PHASES:
            yield from quartiles("seconds", found[name, phase], **side.at, phase=phase)
            if pruned:
                yield from quartiles(
                    "seconds_ratio", ratios(found[name, phase], found[DENSE.name, phase]), **side.at, phase=phase
                )
        for what in SIZED:
            yield from quartiles(what, found[name, what], **side.at)
            if pruned:
                yield from quartiles(f"{what}_ratio", ratios(found[name, what], found[DENSE.name, what]), **side.at)
        if pruned:
            both = [a + b for a, b in zip(found[name, "prefill"], chosen, strict=True)]
            yield from quartiles("seconds_ratio", ratios(both, prefill), **side.at, phase="prefill_and_router")


def memory_metrics(memory: dict[str, tuple[int, int]]) -> Iterator[Metric]:
    """Peak resident memory of each side, and what of it came after the model was loaded."""
    dense, before = memory[DENSE.name]
    for name, (peak, loaded_bytes) in memory.items():
        at = SIDES[name].at
        yield Metric(what="peak_bytes", at=at, value=peak, n=1)
        yield Metric(what="peak_growth_bytes", at=at, value=peak - loaded_bytes, n=1)
        if name != DENSE.name:
            yield Metric(what="peak_bytes_ratio", at=at, value=peak / dense, n=1)
            growth = (peak - loaded_bytes) / max(1, dense - before)
            yield Metric(what="peak_growth_bytes_ratio", at=at, value=growth, n=1)


def memory_of(setting: Setting, side: str) -> tuple[int, int]:
    """Peak resident bytes of a process that does what ``side`` does, and what it held before, with the model loaded."""
    what = f"{setting.name}, {side}"
    peak, before = in_own_process(what, __name__, print_memory.__name__, setting.model, setting.length, side)
    return int(peak), int(before)


@torch.inference_mode()
def print_memory(model_name: str, length: int, side: str) -> None:
    """Prunes one document and asks it one question."""
    torch.set_num_threads(1)
    model, tokenizer = loaded(model_name)
    (document,) = bench_documents(tokenizer, Setting(model_name, length, 1))
    router = fresh_router(model)
    Dense(model, document.tokens[:QUESTION])  # weights may be read from disk only now
    forget_peak()
    before = peak_bytes()
    if side == DENSE.name:
        scores = torch.zeros(len(document.blocks))
    else:
        scores = score_document(router, model, document.tokens, document.blocks)
    SIDES[side].prefill(model, document, scores).answer(question_of(document), ANSWER)
    print(json.dumps([peak_bytes(), before]))

"""Every tool beside keepset: sentences in, one score per sentence out, and a set where the tool defines one.

    keepset evidence    every sentence alone; where none is enough, every one beside the best
    keepset exact       every sentence alone and every sentence hidden
    keepset grouped     every sentence alone; sentences hidden in groups, singly only where a group moves the answer
    keepset certified   one set proved sufficient, necessary and stable among decoys; ``grouped`` where there is none
    leave-one-out       nats that the answer loses when one sentence is hidden
    bm25                words in common with the question; no model
    attention           of the rows that predict the answer, mean over rows, layers and heads
    saliency            gradient of the answer's log-probability, one backward pass
    arc-jsd             how far the answer's distributions move when one sentence is taken out (n + 1 forwards)
    contextcite-32, -64 a sparse linear model fitted to as many random halves; without the work its numbers do not need
    contextcite-64 as installed  the same, as its users have it; it takes a minute, so few questions
    captum              FeatureAblation: the answer's log-probability without each sentence's text

All attribute the same gold answer. A tool is made once per run, then called question by question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet, Span
from keepset.interventions import Fast
from keepset.labels.about import about_blocks
from keepset.labels.support import SupportEffort, find_support
from keepset.paper.bench.engine import peers
from keepset.paper.evidence.units import Task
from keepset.readouts import input_saliency, window_attention
from keepset.text.bm25 import bm25
from keepset.text.prompt import encode

CITE_BATCH = 4
"""ContextCite's; other sizes are not faster on one thread (``keepset bench engine``)."""
FLOOR, OF_LARGEST = 0.25, 0.3
"""The set of leave-one-out: drops over the paper's floor in nats and over a share of the largest one."""
AS_INSTALLED = "contextcite-64 as installed"
"""Asked the first part alone: it says what the tool beside it says, for what its users pay."""
GRADIENT = "saliency"
"""Needs a model that gradients go through."""
HALF = 0.5
"""The set of a tool that has no rule for one: every score of at least half of the best."""


@dataclass(frozen=True)
class Found:
    """What a tool says of one question."""

    scores: tuple[float, ...]
    """(N,) higher is more important."""
    chosen: KeepSet
    """The sentences it names."""


Tool = Callable[[Task], Found]
Make = Callable[[PreTrainedModel, PreTrainedTokenizerBase], Tool]


def half_of_best(scores: Sequence[float]) -> Found:
    """The scores, and those of at least half of the best as the set; empty where none is positive."""
    best = max(scores)
    chosen = frozenset(i for i, score in enumerate(scores) if score >= HALF * best) if best > 0 else frozenset()
    return Found(tuple(scores), chosen)


def keepset_support(effort: SupportEffort, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    """The smallest set that restores nearly all; ranked by what is restored alone and what is lost without."""
    executor = Fast(model)

    def tool(task: Task) -> Found:
        support = find_support(task.answer(executor), effort=effort)
        lost = support.carried or (0.0,) * task.n_blocks
        scores = tuple(alone + hidden for alone, hidden in zip(support.restored, lost, strict=True))
        return Found(scores, support.evidence)

    return tool


def pointed_at(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    """What ``keepset explain`` says the question points at: no answer is read, so it works before there is one."""
    executor = Fast(model)
    return lambda task: half_of_best([about.value for about in about_blocks(task.answer(executor), tokenizer)])


def leave_one_out(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    executor = Fast(model)

    def tool(task: Task) -> Found:
        answer = task.answer(executor)
        every = answer.everything
        full, *without = (float(found.sum()) for found in answer.read([every, *(every - {i} for i in sorted(every))]))
        drops = tuple(full - hidden for hidden in without)
        bar = max(FLOOR, OF_LARGEST * max(drops))
        return Found(drops, frozenset(i for i, drop in enumerate(drops) if drop > bar))

    return tool


def lexical(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    return lambda task: half_of_best(bm25(task.unit.question, task.example.block_texts))


def attention(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    def tool(task: Task) -> Found:
        example = task.example
        tokens = torch.cat([example.tokens, torch.tensor(example.answer[:-1], dtype=example.tokens.dtype)])
        rows = Span(len(example.tokens) - 1, len(tokens))
        found = window_attention(model, tokens[None], example.blocks, rows)
        return half_of_best(found.mean((1, 2))[0].tolist())

    return tool


def saliency(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    def tool(task: Task) -> Found:
        example = task.example
        found = input_saliency(model, example.tokens[None], example.blocks, torch.tensor([example.answer]))
        return half_of_best(found[0].tolist())

    return tool


def arc_jsd(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    """Jensen-Shannon divergence of the next-token distributions, summed over the answer's tokens."""

    @torch.inference_mode()
    def distributions(tokens: Sequence[int], task: Task) -> Tensor:
        answer = task.example.answer
        if task.shared is not None:
            (logits,) = task.shared.rows.logits([(*tokens, *answer)])
            return logits[:-1].float().log_softmax(-1)
        forced = torch.tensor([[*tokens, *answer[:-1]]], device=model.device)
        logits = model(forced, use_cache=False, logits_to_keep=len(answer)).logits[0]
        found: Tensor = logits.float().log_softmax(-1)
        return found

    def tool(task: Task) -> Found:
        whole = distributions(task.example.tokens.tolist(), task)
        texts = [task.text(without=i) for i in range(task.n_blocks)]
        return half_of_best([divergence(whole, distributions(encode(tokenizer, text)[0], task)) for text in texts])

    return tool


def divergence(one: Tensor, other: Tensor) -> float:
    """Jensen-Shannon, in nats, of (A, V) log-probabilities, summed over A."""
    middle = torch.logaddexp(one, other) - torch.log(torch.tensor(2.0))
    return float(sum((side.exp() * (side - middle)).sum() for side in (one, other))) / 2


def contextcite(ablations: int, sparing: bool, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    def tool(task: Task) -> Found:
        read = None if task.shared is None else task.shared.ablated
        score = peers.context_cite(model, tokenizer, CITE_BATCH, ablations, lambda _: task.pieces(), sparing, read)
        return half_of_best(score(task.example))

    return tool


def captum(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tool:
    def tool(task: Task) -> Found:
        read = None if task.shared is None else task.shared.rows
        return half_of_best(peers.captum_ablation(model, tokenizer, lambda _: task.pieces(), read)(task.example))

    return tool


TOOLS: dict[str, Make] = {
    "keepset evidence": partial(keepset_support, "evidence"),
    "leave-one-out": leave_one_out,
    "keepset exact": partial(keepset_support, "exact"),
    "keepset grouped": partial(keepset_support, "grouped"),
    "keepset certified": partial(keepset_support, "certified"),
    "question": pointed_at,
    "bm25": lexical,
    "attention": attention,
    GRADIENT: saliency,
    "arc-jsd": arc_jsd,
    "contextcite-32": partial(contextcite, 32, True),
    "captum": captum,
    "contextcite-64": partial(contextcite, 64, True),
    AS_INSTALLED: partial(contextcite, 64, False),
}
"""In the order in which they run: the cheap ones first."""
PEERS = ("contextcite-32", "contextcite-64", AS_INSTALLED, "captum")
"""Tools of the extra ``peers``."""

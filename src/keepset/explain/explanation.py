"""For a person with a model and a document: which parts of it a reply depends on.

report = keepset.explain(model, tokenizer, context=text, question="Who ran the pier?")
report.show()
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import cast, overload

import torch
from rich.console import Console
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet, Span
from keepset.explain.answer import Part, Said, Writer, find_said
from keepset.explain.findings import BlockReport, CostReport, PartReport, Replies, points_elsewhere
from keepset.explain.plan import MAX_MINUTES, SHORT_REPLY, make_plan, progress_bar
from keepset.explain.report import Report
from keepset.interventions import Ask, Fast
from keepset.labels.about import about_answer, about_blocks, about_threshold, most_about
from keepset.labels.support import Support, SupportEffort, check_support_effort, find_support, no_support
from keepset.labels.worth import Answer
from keepset.models.loading import load_model
from keepset.models.quantize import Quantize
from keepset.readouts.attention import window_attention
from keepset.terminal import print_line
from keepset.text.example import NOT_YET, TextExample, text_example, word_numbers
from keepset.text.reading import read_context
from keepset.text.split import Blocks, check_way

MAX_NEW_TOKENS = 64
"""Of the reply: some sentences."""
LEAST_PEAK = 1.5
"""Nats that some word of a sentence the model wrote must gain from the text, or else the text only colours its words.
The middle of what four rambling replies of SmolLM2 showed (made-up sentences 0.8, sentences with a fact of the text 2.3
or more): a guess. Where it lets a made-up sentence pass, it borrows words, and the report says from where."""


@overload
def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | None = None,
    blocks: Blocks = "sentence",
    effort: SupportEffort = "evidence",
    max_new_tokens: int = MAX_NEW_TOKENS,
    max_minutes: float = MAX_MINUTES,
    console: Console | None = None,
    attention: bool = False,
) -> Report: ...


@overload
def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: list[str],
    answer: None = None,
    blocks: Blocks = "sentence",
    effort: SupportEffort = "evidence",
    max_new_tokens: int = MAX_NEW_TOKENS,
    max_minutes: float = MAX_MINUTES,
    console: Console | None = None,
    attention: bool = False,
) -> list[Report]: ...


def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str | list[str],
    answer: str | None = None,
    blocks: Blocks = "sentence",
    effort: SupportEffort = "evidence",
    max_new_tokens: int = MAX_NEW_TOKENS,
    max_minutes: float = MAX_MINUTES,
    console: Console | None = None,
    attention: bool = False,
) -> Report | list[Report]:
    """Which blocks of ``context`` the reply to ``question`` depends on; for a list of questions, a list of reports.

    Without ``answer``, the model's own reply is explained, sentence by sentence. An ``answer`` that stands in the reply
    is explained as a span of it, any other one as it was given: see ``find_said``. A question whose estimate is over
    ``max_minutes`` is refused; ``math.inf`` goes on. The plan and a progress bar go to ``console``, when there is one.
    Attention is read where blocks are hidden too, and with ``attention`` whatever the effort.
    """
    if isinstance(question, list | tuple):
        _check_no_answer(answer)
        check_cost(model, tokenizer, context, question, blocks, effort, max_new_tokens, max_minutes, attention)
        rest = (None, blocks, effort, max_new_tokens, math.inf, console, attention)
        return [_explain_one(model, tokenizer, context, one, *rest) for one in question]
    return _explain_one(
        model, tokenizer, context, question, answer, blocks, effort, max_new_tokens, max_minutes, console, attention
    )


def _explain_one(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | None,
    blocks: Blocks,
    effort: SupportEffort,
    max_new_tokens: int,
    max_minutes: float,
    console: Console | None,
    attention: bool,
) -> Report:
    began = time.perf_counter()
    check_support_effort(effort)  # before a model has worked for it
    attention = attention or effort != "evidence"
    prompt = text_example(tokenizer, context, question, NOT_YET if answer is None else answer, blocks)
    executor = Fast(model)
    executor.check(Ask(prompt, frozenset(), (prompt.answer,)), reserve=max_new_tokens)
    plan = make_plan(model, prompt, max(max_new_tokens, len(prompt.answer)), effort, attention)
    plan.check(max_minutes)
    if console is not None:
        console.print(plan.sentence(), highlight=False)
    with progress_bar(executor, plan.tokens, console), executor.hold([prompt, prompt.before_question]):
        found = _measure(executor, tokenizer, prompt, answer, effort, max_new_tokens, attention, console)
    cost = CostReport(
        forwards=executor.cost.forwards + attention,
        keep_sets=executor.cost.views,
        tokens=executor.cost.tokens + attention * (len(prompt.tokens) + len(found.said.tokens) - 1),
        seconds=time.perf_counter() - began,
    )
    return _report(model, context, question, effort, prompt, found, cost)


@dataclass(frozen=True, eq=False)
class _Measured:
    """What the forwards of one question gave."""

    said: Said
    supports: list[Support]
    about: float
    nearness: list[float]
    """How much each block is about the question."""
    replies: Replies
    attended: list[float] | None


def _measure(
    executor: Fast,
    tokenizer: PreTrainedTokenizerBase,
    prompt: TextExample,
    answer: str | None,
    effort: SupportEffort,
    max_new_tokens: int,
    attention: bool,
    console: Console | None,
) -> _Measured:
    writer = Writer(executor, tokenizer, prompt)
    reply = writer.tokens(writer.everything, max_new_tokens)
    said = find_said(tokenizer, reply, answer, prompt, goes_on=len(reply) == max_new_tokens)
    if console is not None and answer is None:  # what it rests on takes as long again
        print_line(console, f"reply: {writer.beginning(writer.everything, max_new_tokens)}")
    lead = prompt.before_question.answer[: -len(prompt.answer)]
    asked = Answer(prompt, executor, said.tokens, word_numbers(tokenizer, [*lead, *said.tokens]))
    supports = []
    for support in find_supports(asked, said.parts, effort, LEAST_PEAK if answer is None else -math.inf):
        supports.append(support)
        if console is not None and support.named:
            print_line(console, first_word(prompt, support))
    about = about_answer(asked, tokenizer).value  # after the answer: its readings hold the question's
    nearness = [found.value for found in about_blocks(asked, tokenizer)]
    pointed = most_about(nearness) if answer is None and about >= about_threshold(model_name(executor.model)) else None
    rests_on: KeepSet = frozenset().union(*(support.named | support.others for support in supports))
    elsewhere = pointed is not None and points_elsewhere(pointed, nearness, rests_on)
    return _Measured(
        said,
        supports,
        about,
        nearness,
        short_replies(writer, supports, max_new_tokens, pointed if elsewhere else None),
        reply_attention(executor.model, prompt, said.tokens).tolist() if attention else None,
    )


def first_word(prompt: TextExample, support: Support) -> str:
    """What a reader waits for, said while further sentences are looked into and short replies written."""
    texts = (
        f"[{number}] {shorten(prompt.block_texts[number], 60, placeholder=' …')}" for number in sorted(support.named)
    )
    return f"evidence: {'; '.join(texts)}"


def model_name(model: PreTrainedModel) -> str:
    """As people know it, and as its threshold is filed."""
    return Path(model.name_or_path or "").name or type(model).__name__


def _report(
    model: PreTrainedModel,
    context: str,
    question: str,
    effort: SupportEffort,
    prompt: TextExample,
    found: _Measured,
    cost: CostReport,
) -> Report:
    name = model_name(model)
    threshold = about_threshold(name)
    return Report(
        model=name,
        effort=effort,
        context=context,
        question=question,
        said=found.said.text,
        generated=found.said.generated,
        about=found.about,
        about_threshold=threshold,
        in_text=found.about >= threshold and any(support.evidence for support in found.supports),
        pointed=most_about(found.nearness),
        parts=part_reports(found.said, found.supports),
        blocks=block_reports(prompt, found.nearness, found.attended),
        replies=found.replies,
        cost=cost,
    )


def check_cost(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    questions: Sequence[str],
    blocks: Blocks,
    effort: SupportEffort,
    max_new_tokens: int,
    max_minutes: float,
    attention: bool,
) -> None:
    """Refuses several questions before the first is explained: one that is refused later would lose those before it."""
    check_support_effort(effort)
    for question in sorted(questions, key=len)[-1:]:  # they share the text, so the longest costs most
        prompt = text_example(tokenizer, context, question, NOT_YET, blocks)
        make_plan(model, prompt, max_new_tokens, effort, attention or effort != "evidence").check(max_minutes)


def find_supports(answer: Answer, parts: Sequence[Part], effort: SupportEffort, least_peak: float) -> Iterator[Support]:
    """What each part rests on, one after another; one reading of a keep set serves all of them.

    Parts without a word that gains ``least_peak`` nats from the text are not looked into, and what follows the last
    part that is, is not read: a long reply costs more than the blocks.
    """
    gains = answer.word_gains
    spoken = [float(gains[part.tokens].max()) >= least_peak for part in parts]
    end = max((part.tokens.stop for part, speaks in zip(parts, spoken, strict=True) if speaks), default=0)
    beginning = answer.up_to(end)
    for part, speaks in zip(parts, spoken, strict=True):
        whole = len(parts) == 1
        yield find_support(beginning, part.tokens, effort, whole) if speaks else no_support(answer, part.tokens)


def short_replies(
    writer: Writer, supports: Sequence[Support], max_new_tokens: int, pointed: int | None = None
) -> Replies:
    """The reply, and how it begins with the evidence alone, without it, and with the block alone that the question
    points at, where the reply does not rest on it."""
    evidence: KeepSet = frozenset().union(*(support.named for support in supports))
    others: KeepSet = frozenset().union(*(support.others for support in supports))
    alone: KeepSet = frozenset() if pointed is None else frozenset({pointed})
    short = min(SHORT_REPLY, max_new_tokens)
    reply = writer.tokens(writer.everything, max_new_tokens)  # the others mostly begin like it
    return Replies(
        everything=writer.beginning(writer.everything, max_new_tokens),
        only_evidence=writer.beginning(evidence, short, reply) if evidence else None,
        without_evidence=writer.beginning(writer.everything - evidence - others, short, reply) if evidence else None,
        only_pointed=writer.beginning(alone, short) if alone else None,
    )


def reply_attention(model: PreTrainedModel, prompt: TextExample, reply: tuple[int, ...]) -> Tensor:
    """(N,) share of the attention of the rows that predict the reply, mean over rows, layers and heads."""
    tokens = torch.cat([prompt.tokens, torch.tensor(reply[:-1], dtype=prompt.tokens.dtype)])
    rows = Span(len(prompt.tokens) - 1, len(tokens))
    return window_attention(model, tokens[None], prompt.blocks, rows).mean((1, 2))[0] / len(rows)


def part_reports(said: Said, supports: Sequence[Support]) -> tuple[PartReport, ...]:
    return tuple(
        PartReport(
            text=said.text[part.start : part.stop].strip(),
            start=part.start,
            stop=part.stop,
            worth=support.worth,
            evidence=tuple(sorted(support.named)),
            others=tuple(sorted(support.others)),
            close=tuple(sorted(support.close)),
            spoken=bool(support.evidence),
            total=support.total,
            left=support.left,
            restored=support.restored,
            carried=support.carried,
        )
        for part, support in zip(said.parts, supports, strict=True)
    )


def block_reports(
    prompt: TextExample, about: Sequence[float], attention: Sequence[float] | None
) -> tuple[BlockReport, ...]:
    return tuple(
        BlockReport(
            number=number,
            start=start,
            stop=stop,
            tokens=len(prompt.blocks[number]),
            about=about[number],
            attention=None if attention is None else attention[number],
        )
        for number, (start, stop) in enumerate(prompt.places)
    )


def explain_file(
    context: Path,
    model: str,
    questions: list[str],
    answer: str | None,
    blocks: str,
    effort: str,
    device: str,
    however_long: bool,
    quantize: Quantize | None = None,
) -> list[Report]:
    """The command: ``explain`` on a text file, or on standard input for ``-``, with progress on standard error."""
    check_way(blocks)
    check_support_effort(effort)
    text = read_context(context)
    if len(questions) > 1:
        _check_no_answer(answer)
    loaded, tokenizer = load_model(model, device=device, quantize=quantize)
    rest = (
        blocks,
        cast(SupportEffort, effort),
        MAX_NEW_TOKENS,
        math.inf if however_long else MAX_MINUTES,
        Console(stderr=True),
    )
    if len(questions) == 1:
        return [explain(loaded, tokenizer, text, questions[0], answer, *rest)]
    return explain(loaded, tokenizer, text, questions, None, *rest)


def _check_no_answer(answer: str | None) -> None:
    if answer is not None:
        raise ValueError(f"answer: expected none with several questions, got {answer!r}; explain one at a time")

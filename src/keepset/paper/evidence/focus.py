"""Does a small model answer from the one sentence that the question points at, where it talks past the whole text?

``keepset explain`` shows both. The same model, the same greedy reply; only what it may read differs:

    everything    the whole paragraph
    pointed       the sentence that is most about the question, as ``keepset explain`` finds it: no answer is read
    bm25          the sentence with most words in common with the question, rare ones counting more
    gold          the sentence that people marked: what the other two could be at best
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.explain.answer import Writer, decode
from keepset.explain.explanation import MAX_NEW_TOKENS
from keepset.explain.plan import SHORT_REPLY
from keepset.interventions import Fast
from keepset.labels.about import about_blocks, most_about
from keepset.labels.worth import Answer
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import loaded, short_name
from keepset.paper.bench.timing import one_thread
from keepset.paper.claim import FAILS, HOLDS, OPEN, Claim
from keepset.paper.claim import told as told_of
from keepset.paper.evidence.measure import pooled_shares, told
from keepset.paper.evidence.replies import PARAGRAPH_REPLIES, Asked, paragraph_questions
from keepset.paper.evidence.units import RUN
from keepset.paper.experiment import run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import sign_test
from keepset.paper.table import Table, with_interval
from keepset.text.bm25 import bm25
from keepset.text.example import NOT_YET, text_example

FOCUS = "focus"
EVERYTHING, POINTED, LEXICAL, GOLD = "everything", "pointed", "bm25", "gold"
READS = {
    EVERYTHING: "the whole paragraph",
    POINTED: "the sentence that the question points at",
    LEXICAL: "the sentence that BM25 puts first",
    GOLD: "the sentence that people marked",
}
SURE = 0.05
ALL, POINTS_ELSEWHERE = "all", "points elsewhere"


@dataclass(frozen=True)
class Replied:
    """One question."""

    asked: Asked
    kept: dict[str, KeepSet]
    """Who reads what."""
    replies: dict[str, str]
    """Who then says what, in as many tokens as ``keepset explain`` writes from a part of a text."""
    whole: str
    """The reply to everything in full length."""


def run_focus(
    scale: str, name: str, quantize: Quantize | None, data: Path, size: int, part_size: int, part: int
) -> RunResult:
    """The replies to every question of a part."""
    started = time.monotonic()
    model, tokenizer = loaded(name, quantize)
    chosen = paragraph_questions(data, size)[part * part_size : (part + 1) * part_size]
    with one_thread():
        replied = [reply_to(model, tokenizer, asked) for asked in chosen]
    model_name = short_name(name, quantize)
    return run_result(
        "evidence",
        scale,
        started,
        at={"model": model_name, "questions": FOCUS, "part": part},
        config={"questions": FOCUS, "threads": 1, "tokens": SHORT_REPLY, "most_tokens": MAX_NEW_TOKENS},
        seeds={"evaluation": seeds.EVALUATION.seed(RUN)},
        counts={"questions": len(chosen), "sentences": sum(len(asked.sentences) for asked in chosen)},
        metrics=list(focus_metrics(replied)),
        command=f"keepset bench evidence --data FOLDER --only {model_name}/{FOCUS}/replies-{part}",
    )


def reply_to(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked) -> Replied:
    executor = Fast(model)
    prompt = text_example(tokenizer, asked.context, asked.question, NOT_YET, asked.sentences)
    pointed = most_about([found.value for found in about_blocks(Answer(prompt, executor), tokenizer)])
    lexical = most_about(bm25(asked.question, prompt.block_texts))
    if pointed is None or lexical is None:
        raise ValueError("focus: expected a text with sentences, got none")
    writer = Writer(executor, tokenizer, prompt)
    kept = {
        EVERYTHING: writer.everything,
        POINTED: frozenset({pointed}),
        LEXICAL: frozenset({lexical}),
        GOLD: frozenset({asked.gold}),
    }
    whole = writer.tokens(writer.everything, MAX_NEW_TOKENS)
    parts = {who: writer.tokens(keep, SHORT_REPLY) for who, keep in kept.items() if who != EVERYTHING}
    replies = {EVERYTHING: whole[:SHORT_REPLY], **parts}
    return Replied(
        asked, kept, {who: decode(tokenizer, said) for who, said in replies.items()}, decode(tokenizer, whole)
    )


def focus_metrics(replied: Sequence[Replied]) -> Iterator[Metric]:
    for who in READS:
        yield told("right", [one.asked.answered_in(one.replies[who]) for one in replied], reads=who)
        yield told("reads_gold", [one.asked.gold in one.kept[who] for one in replied], reads=who)
    yield told("right_in_full", [one.asked.answered_in(one.whole) for one in replied], reads=EVERYTHING)


def pooled(results: Results, model: str, what: str, who: str, among: str | None = None) -> Metric:
    """Over all parts that were run; ``among``: a 1 for each question that counts."""
    at = {"model": model, "questions": FOCUS, "reads": who}
    found = pooled_shares(what, [results.metric(what, part=part, **at) for part in focus_parts(results, model)])
    if among is None:
        return found
    return told(what, [one == "1" for one, counts in zip(found.each or "", among, strict=True) if counts == "1"])


def focus_parts(results: Results, model: str) -> list[int]:
    return sorted(results.select("right", model=model, questions=FOCUS, reads=EVERYTHING)["part"])


def pointing(results: Results, model: str) -> str | None:
    """A 1 for each question of which ``keepset explain`` says that it seems to be about a block the reply does not rest
    on; None where some were not explained."""
    at = {"model": model, "questions": PARAGRAPH_REPLIES}
    explained = set(results.select("hinted", **at)["part"])
    parts = focus_parts(results, model)
    if not explained.issuperset(parts):
        return None
    return "".join(results.metric("hinted", part=part, **at).each or "" for part in parts)


def focus_models(results: Results) -> list[str]:
    found = results.select("right", questions=FOCUS)
    return list(dict.fromkeys(found["model"])) if len(found) else []


def wins(results: Results, model: str, who: str, among: str | None = None) -> tuple[int, int]:
    """On how many questions the reply to a part alone has the answer, and the one to everything alone."""
    sides = (pooled(results, model, "right", side, among).each or "" for side in (who, EVERYTHING))
    pairs = list(zip(*sides, strict=True))
    return pairs.count(("1", "0")), pairs.count(("0", "1"))


def focus_table(results: Results) -> Table:
    """Who reads what, and how often the answer is in the reply."""
    rows = []
    for model in focus_models(results):
        for of, among in ((ALL, None), (POINTS_ELSEWHERE, pointing(results, model))):
            if of == ALL or among is not None:
                rows += [(model, of, *focus_row(results, model, who, among)) for who in READS]
    return Table(
        name="evidence-focus",
        caption=(
            "The model's own reply to questions of SQuAD dev (the first ones of evidence-squad), by what it may read; "
            "the rest is hidden. How often the gold sentence is among what is read, and how often an annotator's "
            f"answer stands in the reply, in {SHORT_REPLY} tokens and in {MAX_NEW_TOKENS}. 95 % intervals in brackets."
        ),
        columns=(
            "Model",
            "questions",
            "reads",
            "n",
            "gold is read",
            f"has the answer, {SHORT_REPLY} tokens",
            f"{MAX_NEW_TOKENS} tokens",
            "right alone: this, everything; p",
        ),
        rows=tuple(rows),
        notes=(
            "p: exact sign test on the questions that one of the two alone gets right, two-sided.",
            f"{POINTS_ELSEWHERE}: of which `keepset explain` says that the question seems to be about a sentence that "
            "the reply does not rest on (evidence-reply-kinds); there it shows the reply to that sentence.",
        ),
    )


def focus_row(results: Results, model: str, who: str, among: str | None) -> tuple[str, ...]:
    """What is read, and how often the answer is said."""
    gold, right = (pooled(results, model, what, who, among) for what in ("reads_gold", "right"))
    full = with_interval(pooled(results, model, "right_in_full", who, among)) if who == EVERYTHING else ""
    ahead = wins(results, model, who, among)
    paired = "" if who == EVERYTHING else f"{ahead[0]}, {ahead[1]}; {sign_test(*ahead):.2g}"
    return READS[who], str(right.n), with_interval(gold), with_interval(right), full, paired


def focus_claims(results: Results) -> list[Claim]:
    """The sentence that the question points at, read alone, has the answer said more often than the whole text."""
    found = []
    for model in focus_models(results):
        ours, whole = (pooled(results, model, "right", who) for who in (POINTED, EVERYTHING))
        ahead, behind = wins(results, model, POINTED)
        sure = sign_test(ahead, behind) < SURE
        verdict = OPEN if not sure else HOLDS if ahead > behind else FAILS
        found.append(
            Claim(
                f"The sentence that a question points at, read alone, is answered from more often than the whole "
                f"paragraph, SQuAD dev ({model})",
                "not in it",
                f"{with_interval(ours)} against {with_interval(whole)}; {ahead} questions against {behind}",
                f"{ours.n} questions",
                told_of(verdict, ours.n),
            )
        )
    return found

"""The first view: what a reply rests on; or why that is not looked into yet."""

import math
from dataclasses import dataclass

from keepset.explain.explanation import MAX_NEW_TOKENS, explain
from keepset.explain.plan import Plan, make_plan
from keepset.explain.report import Report
from keepset.explore.explorer import Explorer, Limits, Progress, watched
from keepset.interventions import Ask, Fast
from keepset.labels.support import SupportEffort
from keepset.terminal import duration, one_line
from keepset.text.example import NOT_YET, text_example


@dataclass(frozen=True)
class Refusal:
    """Why nothing was computed."""

    said: str
    """To the visitor."""
    may_go_on: bool = False
    """Only the cost stands in the way, and the visitor may accept it."""


def ask(
    explorer: Explorer, document: str, question: str, every_hidden: bool, however_long: bool, progress: Progress
) -> Report | Refusal:
    """The reply and what it rests on. ``every_hidden``: every sentence is hidden once, too, to see which are needed."""
    refused = missing_or_too_long(document, question, explorer.limits)
    if refused:
        return refused
    effort: SupportEffort = "exact" if every_hidden else "evidence"
    try:
        plan = plan_asking(explorer, document, question, effort)
        refused = too_costly(plan, explorer.limits, however_long)
        if refused:
            return refused
        with watched(explorer.model, plan.tokens + plan.steps, explorer.limits.most_seconds, progress):
            return explain(
                explorer.model,
                explorer.tokenizer,
                document,
                question,
                effort=effort,
                max_minutes=math.inf,
                attention=True,
            )
    except ValueError as error:  # what a model cannot read, and what took too long
        return Refusal(one_line(str(error)))


def plan_asking(explorer: Explorer, document: str, question: str, effort: SupportEffort) -> Plan:
    """What it will take at most; raises ValueError where the model cannot read so much."""
    prompt = text_example(explorer.tokenizer, document, question, NOT_YET)
    Fast(explorer.model).check(Ask(prompt, frozenset(), (prompt.answer,)), reserve=MAX_NEW_TOKENS)
    return make_plan(explorer.model, prompt, MAX_NEW_TOKENS, effort, attention=True)


def missing_or_too_long(document: str, question: str, limits: Limits) -> Refusal | None:
    if not document.strip():
        return Refusal("There is no document yet: paste one, load a text file or choose an example.")
    if not question.strip():
        return Refusal("There is no question yet: write one about the document.")
    for name, text, most in (
        ("document", document, limits.characters),
        ("question", question, limits.question_characters),
    ):
        if len(text) > most:
            return Refusal(
                f"The {name} has {len(text):,} characters; this page takes at most {most:,}. "
                "On the command line there is no such limit: keepset explain."
            )
    return None


def too_costly(plan: Plan, limits: Limits, however_long: bool) -> Refusal | None:
    cost = f"{plan.n_blocks:,} sentences, {plan.prompt_tokens:,} tokens: at most about {duration(plan.most_seconds)}"
    if plan.most_seconds > limits.most_seconds:
        return Refusal(
            f"{cost}. This page stops at {duration(limits.most_seconds)}; take a shorter document, or the command "
            "line: keepset explain --yes."
        )
    if plan.most_seconds > limits.unasked_seconds and not however_long:
        return Refusal(f"{cost}. Nothing was begun; go on all the same, or take a shorter document.", True)
    return None

"""For a person with a model and a document: which parts of it an answer depends on.

report = keepset.explain(model, tokenizer, context=text, question="Who ran the pier?")
report.show()
"""

import math
import time
from pathlib import Path
from typing import cast

from rich.console import Console
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.explain.answer import Writer, find_answer
from keepset.explain.effects import answer_attention, block_reports
from keepset.explain.families import find_family
from keepset.explain.findings import Answers, CostReport
from keepset.explain.plan import MAX_MINUTES, make_plan, watched
from keepset.explain.report import Report
from keepset.interventions import Ask, Effects, Effort, Fast, TeacherForced, check_effort
from keepset.labels.evidence import find_evidence
from keepset.models.loading import load_model
from keepset.text.example import text_example
from keepset.text.reading import read_context
from keepset.text.split import Blocks

NOT_YET: tuple[int, ...] = (0,)
"""Stands for the answer until the model has written it."""


def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | None = None,
    blocks: Blocks = "sentence",
    effort: Effort = "exact",
    max_new_tokens: int = 32,
    max_minutes: float = MAX_MINUTES,
    console: Console | None = None,
) -> Report:
    """Which blocks of ``context`` the answer to ``question`` depends on.

    Without ``answer``, the model's own is explained: see ``find_answer``, which says what of a reply is the answer.
    A job whose estimate is over ``max_minutes`` is refused; ``math.inf`` goes on. The plan and a progress bar go
    to ``console``, when there is one.
    """
    began = time.perf_counter()
    check_effort(effort)  # before a model has worked for it
    prompt = text_example(tokenizer, context, question, NOT_YET if answer is None else answer, blocks)
    executor = Fast(model)
    executor.check(Ask(prompt, frozenset(), (prompt.answer,)), reserve=max_new_tokens)
    plan = make_plan(model, prompt, max_new_tokens if answer is None else len(prompt.answer))
    plan.check(max_minutes)
    if console is not None:
        console.print(plan.sentence(effort), highlight=False)
    with watched(executor, plan.tokens, console) as begin:
        writer = Writer(executor, tokenizer, max_new_tokens, prompt)
        opening, example = find_answer(prompt, writer, answer)
        before = executor.cost.copy()
        effects = Effects([example], executor, TeacherForced(), effort)
        _ = effects.hidden, effects.alone  # all of them: the report shows every block, an evidence set needs fewer
        (evidence,) = find_evidence(effects)
        effect_tokens = executor.cost.since(before).tokens
        (knows,) = effects.probe.score([(0, frozenset())])
        begin("finding sufficient sets")
        family, complete = find_family(effects, knows.correct)
        answers = Answers(
            clean=writer.text(writer.everything),
            only_evidence=writer.text(evidence.blocks),
            without_evidence=writer.text(writer.everything - evidence.blocks),
            no_context=writer.text(frozenset()),
        )
        attention = answer_attention(model, example)
    whole = len(example.tokens) + len(example.answer) - 1
    return Report(
        model=Path(model.name_or_path or "").name or type(model).__name__,
        effort=effort,
        context=context,
        question=question,
        opening=opening,
        answer=writer.decode(example.answer) if answer is None else answer.strip(),
        generated=answer is None,
        gives_answer=bool(effects.clean_correct[0]),
        knows_answer=knows.correct,
        log_prob=float(effects.clean_log_prob[0]),
        case=evidence.case.value,
        family=tuple(sorted((tuple(sorted(keep)) for keep in family), key=lambda keep: (len(keep), keep))),
        complete=complete,
        blocks=block_reports(example, effects, attention, evidence.blocks),
        answers=answers,
        cost=CostReport(
            forwards=executor.cost.forwards + 1,  # and the one attention was read from
            keep_sets=executor.cost.views,
            tokens=executor.cost.tokens + whole,
            seconds=time.perf_counter() - began,
            effect_tokens=effect_tokens,
            plain_tokens=(2 * len(example.blocks) + 1) * whole,
        ),
    )


def explain_file(
    context: Path, model: str, question: str, answer: str | None, blocks: str, effort: str, however_long: bool
) -> Report:
    """The command: ``explain`` on a text file, or on standard input for ``-``, with progress on standard error."""
    text = read_context(context)
    loaded, tokenizer = load_model(model)
    return explain(
        loaded,
        tokenizer,
        text,
        question,
        answer,
        blocks,
        cast(Effort, effort),
        max_minutes=math.inf if however_long else MAX_MINUTES,
        console=Console(stderr=True),
    )

"""For a person with a model and a document: which parts of it an answer depends on.

    report = keepset.explain(model, tokenizer, context=text, question="Who ran the pier?")
    report.show()

(Not called ``explain.py``: importing that module would put it where ``keepset.explain`` is looked up.)
"""

import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet, Span
from keepset.explain.report import Answers, BlockReport, CostReport, Report
from keepset.interventions import Ask, Effects, Executor, Fast, Mode, TeacherForced
from keepset.labels.evidence import find_evidence
from keepset.labels.families import find_families
from keepset.models.loading import load_model
from keepset.readouts.attention import window_attention
from keepset.text.example import TextExample, split_blocks, text_example

MAX_MINUTES = 10.0
"""Longer than a person waits without having been asked."""
TIMED_TOKENS = 1_024
"""Of the clean prompt, to see how fast the model is: enough for a forward to cost what its tokens cost."""
MOST_SETS = 4
"""Minimal sufficient sets to look for: each costs a search of its own, and a reader wants to know if there is one."""
LEAST_PROBES = 50
"""Keep sets that a search for minimal sets may always ask, however short the text."""
NOT_YET: tuple[int, ...] = (0,)
"""Stands for the answer until the model has written it."""


def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: str,
    question: str,
    answer: str | None = None,
    blocks: str | int | Sequence[tuple[int, int]] = "sentence",
    mode: Mode = "exact",
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
    if mode not in get_args(Mode):  # before a model has worked for it
        raise ValueError(f"mode: expected one of {', '.join(get_args(Mode))}, got {mode!r}")
    spans = split_blocks(context, blocks, tokenizer)
    prompt = text_example(tokenizer, context, question, NOT_YET if answer is None else answer, spans)
    executor = Fast(model)
    executor.check(Ask(prompt, frozenset(), (prompt.answer,)), reserve=max_new_tokens)
    plan = make_plan(model, prompt, max_new_tokens if answer is None else len(prompt.answer))
    plan.check(max_minutes)
    if console is not None:
        console.print(plan.sentence(mode), highlight=False)
    with _progress(executor, plan.tokens, console) as begin:
        writer = Writer(executor, tokenizer, max_new_tokens, prompt)
        opening, example = find_answer(prompt, writer, answer)
        before = executor.cost.copy()
        effects = Effects([example], executor, TeacherForced(), mode)
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
        mode=mode,
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
        blocks=_block_reports(example, spans, effects, attention, evidence.blocks),
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
    context: Path, model: str, question: str, answer: str | None, blocks: str, mode: str, however_long: bool
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
        cast(Mode, mode),
        max_minutes=math.inf if however_long else MAX_MINUTES,
        console=Console(stderr=True),
    )


def read_context(path: Path) -> str:
    """Everything in a text file, or on standard input for ``-``."""
    try:
        written = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected a text file in UTF-8, got something else: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: expected a text file, or - for standard input, got: {error.strerror}") from error


@dataclass(frozen=True)
class Plan:
    """What exact effects will take."""

    n_blocks: int
    prompt_tokens: int
    tokens: int
    """Of all keep sets together, common beginnings once."""
    seconds_per_token: float

    @property
    def seconds(self) -> float:
        return self.tokens * self.seconds_per_token

    @property
    def keep_sets(self) -> int:
        return 2 * self.n_blocks + 1

    def sentence(self, mode: Mode) -> str:
        most = "" if mode == "exact" else "at most "
        return (
            f"{self.n_blocks:,} blocks, {self.prompt_tokens:,} tokens: {most}{self.keep_sets:,} keep sets, as much as "
            f"{self.tokens / self.prompt_tokens:,.0f} forwards of the whole prompt, about {duration(self.seconds)}; "
            "then the minimal sufficient sets"
        )

    def check(self, max_minutes: float) -> None:
        if self.seconds > 60 * max_minutes:
            raise ValueError(
                f"cost: expected at most {duration(60 * max_minutes)}, got an estimate of {duration(self.seconds)} "
                f"for {self.keep_sets:,} keep sets of {self.n_blocks:,} blocks ({self.tokens:,} tokens); take larger "
                "blocks ('paragraph', '128 tokens'), or go on with --yes (max_minutes=math.inf)"
            )


def make_plan(model: PreTrainedModel, example: TextExample, answer_tokens: int) -> Plan:
    """Counts the tokens of every keep set and times the model on the beginning of the prompt."""
    n_tokens, n_blocks = len(example.tokens), len(example.blocks)
    after = answer_tokens - 1
    hidden = sum(n_tokens - span.stop for span in example.blocks)
    alone = sum(len(span) for span in example.blocks) + n_blocks * len(example.query)
    return Plan(
        n_blocks=n_blocks,
        prompt_tokens=n_tokens,
        tokens=n_tokens + hidden + alone + after * (2 * n_blocks + 1),
        seconds_per_token=seconds_per_token(model, example.tokens[:TIMED_TOKENS]),
    )


@torch.inference_mode()
def seconds_per_token(model: PreTrainedModel, tokens: Tensor) -> float:
    """Of one forward; long prompts cost more per token, so an estimate for one is a lower bound."""
    tokens = tokens[None].to(model.device)
    model(tokens[:, :8], use_cache=False)  # the first forward of a process sets things up
    began = time.perf_counter()
    model(tokens, use_cache=False, logits_to_keep=1)
    return (time.perf_counter() - began) / tokens.shape[1]


def duration(seconds: float) -> str:
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def find_family(effects: Effects, knows: bool) -> tuple[frozenset[KeepSet], bool]:
    """Minimal sufficient sets of the one example, and whether there are no others if hiding more never repairs.

    Starts from the blocks that are enough alone: without all of them the answer is usually lost, and nothing is left
    to search. On real models hiding more does repair sometimes, and a search returns sets that hold a smaller one.
    """
    if knows:
        return frozenset({frozenset()}), True
    probe = effects.probe
    alone = torch.nonzero(effects.sufficient[0]).flatten().tolist()
    (rest,) = probe.score([(0, probe.blocks(0) - frozenset(alone))])
    singles = frozenset(frozenset({block}) for block in alone)
    if not rest.correct:
        return singles, True
    as_the_effects_took = 2 * len(probe.examples[0].blocks)
    (found,) = find_families(probe, cap=MOST_SETS, max_probes=max(LEAST_PROBES, as_the_effects_took))
    sets = singles | found.sets
    smallest = frozenset(keep for keep in sets if not any(other < keep for other in sets))
    return smallest, found.complete and smallest == found.sets


def answer_attention(model: PreTrainedModel, example: TextExample) -> Tensor:
    """(N,) share of the attention of the rows that predict the answer, mean over rows, layers and heads."""
    tokens = torch.cat([example.tokens, torch.tensor(example.answer[:-1], dtype=example.tokens.dtype)])
    rows = Span(len(example.tokens) - 1, len(tokens))
    return window_attention(model, tokens[None], example.blocks, rows).mean((1, 2))[0] / len(rows)


@dataclass(frozen=True)
class Writer:
    """Lets the model reply, once per keep set: greedily, up to the end of the turn or line."""

    executor: Executor
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    prompt: TextExample
    known: dict[KeepSet, tuple[int, ...]] = field(default_factory=dict)

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.prompt.blocks)))

    def tokens(self, keep: KeepSet) -> tuple[int, ...]:
        if keep not in self.known:
            stop = stop_tokens(self.executor.model, self.tokenizer)
            ask = Ask(self.prompt, keep, (self.prompt.answer,))
            ((self.known[keep],),) = self.executor.generate([ask], self.max_new_tokens, stop)
        return self.known[keep]

    def text(self, keep: KeepSet) -> str:
        return self.decode(self.tokens(keep))

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()


def find_answer(prompt: TextExample, writer: Writer, answer: str | None) -> tuple[str, TextExample]:
    """What of the model's reply is the answer, after the model's own words before it.

        reply               The first keeper of the lighthouse was Ingrid Solberg, a Swedish engineer who
        without context     The first keeper of the lighthouse was a British man
        opening, answer     The first keeper of the lighthouse was | Ingrid Solberg

    A whole reply changes somewhere whatever is hidden. So the words the model would write anyway, and those of a given
    answer that stand before it in the reply, are given to the model; and an answer ends with its clause.
    A given answer that is not in the reply stands right after the prompt.
    """
    reply = writer.tokens(writer.everything)
    if answer is None:
        if not writer.decode(reply):
            raise ValueError(
                "answer: expected the model to write one, got nothing before the end of its turn or line; "
                "pass the answer to explain"
            )
        start = _new_words(reply, writer)
        stop = start + _clause(reply[start:], writer)
    else:
        window = _window(reply, answer.strip(), writer)
        if window is None:
            return "", prompt
        start, stop = window
    opening = torch.tensor(reply[:start], dtype=prompt.tokens.dtype)
    tokens = torch.cat([prompt.tokens, opening])
    query = Span(prompt.query.start, len(tokens))
    return writer.decode(reply[:start]), replace(prompt, tokens=tokens, query=query, answer=reply[start:stop])


def _new_words(reply: tuple[int, ...], writer: Writer) -> int:
    """Where the reply leaves the one without context, at the beginning of a word; 0 when it never does."""
    without = writer.tokens(frozenset())
    pairs = enumerate(zip(reply, without, strict=False))
    start = next((i for i, (one, other) in pairs if one != other), min(len(reply), len(without)))
    if not _words(writer.decode(reply[start:])):
        return 0
    text = writer.decode(reply)
    while start and _words(writer.decode(reply[:start])) + _words(writer.decode(reply[start:])) != _words(text):
        start -= 1
    return start


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _clause(tokens: tuple[int, ...], writer: Writer) -> int:
    """How many of ``tokens`` the first clause has: up to a comma or the end of the sentence."""
    text = writer.decode(tokens)
    first, last = split_blocks(text, "sentence")[0]
    clause = re.split(r"[,;:](?=\s)|[，；：]", text[first:last])[0].strip()
    clause = re.sub(r"[.!?…。！？]+$", "", clause) or clause
    return next(n for n in range(1, len(tokens) + 1) if clause in writer.decode(tokens[:n]))


def _window(reply: tuple[int, ...], answer: str, writer: Writer) -> tuple[int, int] | None:
    """The fewest tokens of the reply that say ``answer``, where it says it first."""
    stop = next((n for n in range(1, len(reply) + 1) if answer in writer.decode(reply[:n])), None)
    if stop is None:
        return None
    start = next(n for n in range(stop - 1, -1, -1) if answer in writer.decode(reply[n:stop]))
    return start, stop


def stop_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """What ends an answer: the end of the turn, or a token with a line break in it."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    ends = ends if isinstance(ends, list) else [ends]
    # "Ċ" is how byte-level vocabularies write a line break, "<0x0A>" how sentence pieces do.
    maybe = [i for token, i in tokenizer.get_vocab().items() if "\n" in token or "Ċ" in token or token == "<0x0A>"]
    breaks = [i for i in maybe if "\n" in str(tokenizer.decode([i]))]
    return frozenset(i for i in (*ends, tokenizer.eos_token_id, *breaks) if i is not None)


def _block_reports(
    example: TextExample,
    spans: Sequence[tuple[int, int]],
    effects: Effects,
    attention: Tensor,
    evidence: KeepSet,
) -> tuple[BlockReport, ...]:
    columns = (effects.drop[0], effects.hidden.measured[0], effects.flip[0], effects.sufficient[0], attention)
    return tuple(
        BlockReport(
            number=i,
            start=start,
            stop=stop,
            tokens=len(example.blocks[i]),
            drop=drop,
            measured=measured,
            flip=flip,
            sufficient=sufficient,
            attention=mass,
            evidence=i in evidence,
        )
        for i, ((start, stop), drop, measured, flip, sufficient, mass) in enumerate(
            zip(spans, *(column.tolist() for column in columns), strict=True)
        )
    )


@contextmanager
def _progress(executor: Executor, tokens: int, console: Console | None) -> Iterator[Callable[[str], None]]:
    """A bar over the tokens of the plan, moved by every forward; nothing where nobody watches.

    Gives what begins the next phase, whose length nobody knows.
    """
    if console is None or not console.is_terminal:
        yield lambda phase: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("hiding blocks", total=tokens)
        hook = executor.model.register_forward_hook(
            lambda *_: progress.update(task, completed=min(executor.cost.tokens, tokens))
        )
        try:
            yield lambda phase: progress.update(task, description=phase, total=None)
        finally:
            hook.remove()

"""Are the record spans right, and where does the sink sit? Gives ``tab:app-span-audit``.

span_audit/<model>      every span decodes to its sentence; record 0 under three poolings; a sentence before it
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Span
from keepset.paper.eviction.tally import Outcome, share_of
from keepset.paper.experiment import Choice, Difference, Experiment, Jobs, Report
from keepset.paper.pretrained.examples import Task, draw
from keepset.paper.pretrained.pool import INTERVAL_NOTE, cell, models, paper_rows, pooled_share
from keepset.paper.pretrained.settings import RECORDS, SETTINGS, Setting, frozen
from keepset.paper.pretrained.written import record_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table
from keepset.paper.testbed.tasks.records import RecordExample
from keepset.readouts import answer_attention, pool_attention

NAME = "span_audit"
TASK: Task = "unique"
PREFIXES = (
    "The following list was written down by hand.",
    "Here are some notes that somebody left on a desk.",
    "Please read each line of this text with care.",
)
"""Neutral sentences that are no records."""
POOLINGS = ("sum", "mean", "max")
"""Over the tokens of a record."""


def jobs(scale: str) -> Jobs:
    """One result per model."""
    return {f"{NAME}/{s.name}": partial(run, scale, s) for s in SETTINGS[scale] if s.audited}


def run(scale: str, setting: Setting) -> RunResult:
    """All examples of one model, plain and with each sentence before the records."""
    started = time.monotonic()
    model, tokenizer = frozen(setting)
    numbers = range(setting.audited)
    metrics: list[Metric | None] = []
    for prefix, before in enumerate(("", *PREFIXES)):
        examples = draw(setting, TASK, RECORDS, numbers, before)
        metrics.append(share_of("sound", [sound(tokenizer, example) for example in examples], prefix=prefix))
        attention = [token_attention(model, example) for example in examples]
        for pooling in POOLINGS:
            first = [
                int(record_mass(row, e.blocks, pooling).argmax()) == 0
                for row, e in zip(attention, examples, strict=True)
            ]
            metrics.append(share_of("first_is_most", first, prefix=prefix, pooling=pooling))
        if before:
            over = [records_over_prefix(row, e.blocks) for row, e in zip(attention, examples, strict=True)]
            metrics.append(share("over_prefix", sum(over), RECORDS * len(over), prefix=prefix))
        else:
            metrics += lengths(examples)
    about = {"prefixes": list(PREFIXES)}
    return record_result(NAME, scale, started, setting, TASK, RECORDS, metrics, {"examples": len(numbers)}, about)


def sound(tokenizer: PreTrainedTokenizerBase, example: RecordExample) -> Outcome:
    """Every span says its own sentence and no more; spans follow one another."""
    said = [str(tokenizer.decode(example.tokens[span.start : span.stop])).strip() for span in example.blocks]
    ordered = all(a.stop <= b.start for a, b in zip(example.blocks, example.blocks[1:], strict=False))
    return ordered and said == list(example.sentences)


def token_attention(model: PreTrainedModel, example: RecordExample) -> Tensor:
    """(T,) what the answer row pays to each token; mean over heads and layers."""
    tokens = example.tokens[None]
    each = tuple(Span(i, i + 1) for i in range(tokens.shape[1] - 1))
    return pool_attention(answer_attention(model, tokens, each), heads="mean")[0]


def record_mass(attention: Tensor, blocks: tuple[Span, ...], pooling: str) -> Tensor:
    """(N,) by one of ``POOLINGS``."""
    pool: dict[str, Callable[[Tensor], Tensor]] = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
    return torch.stack([pool[pooling](attention[span.start : span.stop]) for span in blocks])


def records_over_prefix(attention: Tensor, blocks: tuple[Span, ...]) -> int:
    """Records with more attention than all that stands before them."""
    return int((record_mass(attention, blocks, "sum") > attention[: blocks[0].start].sum()).sum())


def lengths(examples: list[RecordExample]) -> list[Metric]:
    """Tokens of record 0, of the median record, and before record 0."""
    n = len(examples)
    first = sum(len(example.blocks[0]) for example in examples) / n
    median = sum(float(torch.tensor([float(len(s)) for s in e.blocks]).median()) for e in examples) / n
    start = sum(example.blocks[0].start for example in examples) / n
    return [
        Metric(what="tokens", at={"of": name}, value=value, n=n)
        for name, value in (("first", first), ("median", median), ("before", start))
    ]


PAPER = """
Qwen2.5-3B | 10 | pass | 0 | 12.6 (12.9) | 10/10 | 0/10 | 0
Qwen2.5-7B | 10 | pass | 0 | 12.6 (12.9) | 10/10 | 0-1/10 | 0
Yi-1.5-9B | 10 | pass | 0 | 13.0 (13.0) | 10/10 | 0/10 | 0
"""


def audit_table(results: Results) -> Table:
    """``tab:app-span-audit``."""
    rows = []
    for model in models(results):
        at = {"model": model}
        n = results.run(model=model).counts["examples"]
        intact = all(value == 1 for value in results.values("sound", model=model))
        plain, prefixed = (
            [cell(results, "first_is_most", prefix=prefix, pooling="sum", **at) for prefix in chosen]
            for chosen in ((0,), (1, 2, 3))
        )
        others = [results.value("first_is_most", prefix=0, pooling=pooling, **at) for pooling in POOLINGS[1:]]
        rows.append(
            (
                model,
                str(n),
                "pass" if intact else "fail",
                f"{results.value('tokens', of='before', **at):.0f}",
                f"{results.value('tokens', of='first', **at):.1f} ({results.value('tokens', of='median', **at):.1f})",
                f"{plain[0]}; mean {others[0]:.2f}, max {others[1]:.2f}",
                "; ".join(prefixed),
                "; ".join(cell(results, "over_prefix", prefix=prefix, **at) for prefix in (1, 2, 3)),
            )
        )
    return Table(
        name="tab-app-span-audit",
        caption=(
            "Audit of the record spans, unique retrieval, 16 records: does every span decode to its sentence, in "
            "order; tokens before record 0; its length; and how often it gets the most attention of the answer row, "
            "plain and with one of three sentences before it that are no records."
        ),
        columns=(
            "Model",
            "n",
            "Integrity",
            "Tokens before record 0",
            "Record 0 tokens (median record)",
            "Record 0 is argmax, plain",
            "prefixed",
            "Records above the prefix",
        ),
        rows=(*rows, *paper_rows(PAPER)),
        notes=(
            INTERVAL_NOTE,
            "Argmax: sum over the record's tokens; plain also under their mean and maximum. Records above the prefix: "
            "share of all records with more attention than the whole prefix.",
        ),
    )


def prefixed_here(results: Results) -> str:
    """How often record 0 stays on top with a sentence before it, model by model."""
    found = {
        model: [
            pooled_share(results, "first_is_most", model=model, prefix=prefix, pooling="sum") for prefix in (1, 2, 3)
        ]
        for model in models(results)
    }
    shares = {model: [metric.value for metric in three if metric] for model, three in found.items()}
    return ", ".join(f"{model} {min(three):.2f} to {max(three):.2f}" for model, three in shares.items()) or "not run"


EXPERIMENT = Experiment(
    NAME,
    place=55,
    jobs=jobs,
    reports=(Report("tab:app-span-audit", "pretrained", audit_table),),
    differences=(
        Difference(
            "tab:app-span-audit, record 0 gets the most attention of all records with a sentence before it",
            "0/10 to 1/10",
            prefixed_here,
            "which model it is: the one of the paper's family does as in the paper; why record 0 keeps more than other "
            "records in the small one is not tested",
        ),
    ),
    choices=(Choice("The sentences that absorb the sink", "; ".join(PREFIXES)),),
)

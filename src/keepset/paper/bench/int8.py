"""What int8 costs and saves: every answer, evidence set and drop beside those of float32, and the seconds of both.

    prefill   documents of 1,024 tokens: seconds, and how far the next-token distributions move (KL)
    records   one fact in a few sentences, forced choice
    needles   one number in lines of noise, teacher forced

Both sides see the same examples in one run on one thread; the side that starts is another one each time.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import Example, KeepSet
from keepset.interventions import Effects, Fast, ForcedChoice, Scorer, TeacherForced
from keepset.labels import evidence_sets, keep_sets
from keepset.paper.bench.engine.run import written_candidates
from keepset.paper.bench.models import TINY, loaded
from keepset.paper.bench.timing import bracketed, clock, one_thread, quartiles, ratios, rotated
from keepset.paper.claim import Claim, every_claim
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.paper.testbed.tasks.records import sample_records
from keepset.text.long_context import document_seed, sample_documents

NAME = "int8"
SIDES: dict[str, Literal["int8"] | None] = {"float32": None, "int8": "int8"}
PREFILL = "prefill"
BENCH_RUN = 5
"""Of the seed range: away from evaluations and the other benchmarks."""
RECORDS, NEEDLE_TOKENS, PREFILL_TOKENS = 8, 256, 1_024
LAST = 64
"""Tokens at the end of a document whose next-token distributions are compared."""


@dataclass(frozen=True)
class Setting:
    """How many examples a model is asked."""

    model: str
    records: int
    needles: int
    prefills: int


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": (Setting(TINY, 2, 2, 2),),
    "small": (
        Setting("smollm2-135m-instruct", 60, 60, 5),
        Setting("qwen2.5-coder-1.5b-instruct", 30, 30, 3),
    ),
    "paper": (Setting("Qwen/Qwen2.5-7B-Instruct", 200, 200, 10),),
}

SAME_SETS = 0.97
"""Share of examples on which both are to find the same evidence set."""

Seconds = dict[str, list[float]]
"""Side -> CPU seconds, example by example."""


def jobs(scale: str) -> Jobs:
    """One result per model and subject."""
    found: Jobs = {}
    for setting in SETTINGS[scale]:
        name = f"{NAME}/{setting.model.split('/')[-1]}"
        found[f"{name}-{PREFILL}"] = partial(run_prefill, scale, setting)
        found[f"{name}-records"] = partial(run_labels, scale, setting, "records", setting.records)
        found[f"{name}-needles"] = partial(run_labels, scale, setting, "needles", setting.needles)
    return found


def run_prefill(scale: str, setting: Setting) -> RunResult:
    """Reads documents with both."""
    started = time.monotonic()
    models, tokenizer = both(setting.model)
    seed = document_seed(seeds.EVALUATION, BENCH_RUN, "multikey", PREFILL_TOKENS)
    documents = sample_documents("multikey", tokenizer, seed, PREFILL_TOKENS, setting.prefills)
    seconds: Seconds = defaultdict(list)
    moved: list[float] = []
    with one_thread():
        for model in models.values():
            read(model, documents[0].tokens[:LAST])  # the first forward pays for allocations; nobody's time
        for number, document in enumerate(documents):
            said = {}
            for side in rotated(list(SIDES), number):
                with clock(seconds[side]):
                    said[side] = read(models[side], document.tokens)
            moved.append(divergence(said["float32"], said["int8"]))
    metrics = [*speed(seconds), *quartiles("divergence", moved)]
    return _result(scale, started, setting, PREFILL, seed, len(documents), metrics)


@torch.inference_mode()
def read(model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """(``LAST``, V) log-probabilities."""
    logits: Tensor = model(tokens[None], use_cache=True, logits_to_keep=LAST).logits
    return logits[0].log_softmax(-1)


def divergence(before: Tensor, after: Tensor) -> float:
    """Kullback–Leibler, in nats, the mean over tokens."""
    return float((before.exp() * (before - after)).sum(-1).mean())


@dataclass
class Labelled:
    """What one side said of every example."""

    answered: list[bool] = field(default_factory=list)
    evidence: list[KeepSet] = field(default_factory=list)
    drops: list[list[float]] = field(default_factory=list)
    """Of the annotated blocks: log-probability of the answer lost when each is hidden."""


def run_labels(scale: str, setting: Setting, subject: str, n: int) -> RunResult:
    """Labels examples with both."""
    started = time.monotonic()
    models, tokenizer = both(setting.model)
    examples, scorer, seed = sample(subject, tokenizer, n)
    executors = {side: Fast(model) for side, model in models.items()}
    seconds: Seconds = defaultdict(list)
    found = {side: Labelled() for side in SIDES}
    with one_thread():
        for number, example in enumerate(examples):
            for side in rotated(list(SIDES), number):
                effects = Effects([example], executors[side], scorer)
                with clock(seconds[side]):
                    label(found[side], effects, example)
    return _result(scale, started, setting, subject, seed, n, [*speed(seconds), *agreement(found)])


def label(found: Labelled, effects: Effects, example: Example) -> None:
    """The evidence set, and the drops of the annotated blocks: leave-one-out of the others is most of the work."""
    found.evidence += keep_sets(evidence_sets(effects))
    found.answered += effects.clean_correct.tolist()
    everything = effects.probe.blocks(0)
    asks = [everything, *(everything - {block} for block in sorted(example.evidence))]
    clean, *hidden = effects.probe.score([(0, keep) for keep in asks])
    found.drops.append([clean.log_prob - score.log_prob for score in hidden])


def sample(subject: str, tokenizer: PreTrainedTokenizerBase, n: int) -> tuple[Sequence[Example], Scorer, int]:
    """Examples, how they are judged, and their seed."""
    if subject == "records":
        seed = seeds.EVALUATION.seed(BENCH_RUN, RECORDS)
        return sample_records(tokenizer, seed, RECORDS, n=n), ForcedChoice(written_candidates), seed
    seed = document_seed(seeds.EVALUATION, BENCH_RUN, "single", NEEDLE_TOKENS)
    documents = sample_documents("single", tokenizer, seed, NEEDLE_TOKENS, n)
    return [document.questions[document.asked] for document in documents], TeacherForced(), seed


def both(name: str) -> tuple[dict[str, PreTrainedModel], PreTrainedTokenizerBase]:
    found = {side: loaded(name, quantize) for side, quantize in SIDES.items()}
    return {side: model for side, (model, _) in found.items()}, found["float32"][1]


def speed(seconds: Seconds) -> Iterator[Metric]:
    for side in SIDES:
        yield from quartiles("seconds", seconds[side], side=side)
    yield from quartiles("times_as_fast", ratios(seconds["float32"], seconds["int8"]))


def agreement(found: dict[str, Labelled]) -> Iterator[Metric]:
    """How often both say the same, and by how much drops differ where float32 answers."""
    plain, rounded = found["float32"], found["int8"]
    n = len(plain.answered)
    for side, labelled in found.items():
        yield share("answered", sum(labelled.answered), n, side=side)
    yield share("same_answer", sum(map(bool.__eq__, plain.answered, rounded.answered)), n)
    yield share("same_evidence", sum(map(frozenset.__eq__, plain.evidence, rounded.evidence)), n)
    pairs = zip(plain.drops, rounded.drops, plain.answered, strict=True)
    gaps = [abs(a - b) for drops, others, right in pairs if right for a, b in zip(drops, others, strict=True)]
    if gaps:
        yield from quartiles("drop_gap", gaps)
        sizes = [d for drops, right in zip(plain.drops, plain.answered, strict=True) if right for d in drops]
        yield from quartiles("drop", sizes)


def _result(
    scale: str, started: float, setting: Setting, subject: str, seed: int, n: int, metrics: list[Metric]
) -> RunResult:
    lengths = {PREFILL: PREFILL_TOKENS, "needles": NEEDLE_TOKENS}
    return run_result(
        NAME,
        scale,
        started,
        at={"model": setting.model.split("/")[-1], "subject": subject},
        config={
            "model": setting.model,
            "threads": 1,
            "processor": torch.backends.cpu.get_cpu_capability(),
            "length": lengths.get(subject),
            "n_blocks": RECORDS if subject == "records" else None,
            "compared_tokens": LAST if subject == PREFILL else None,
        },
        seeds={"evaluation": seed},
        counts={"examples": n},
        metrics=metrics,
        command=f"keepset bench {NAME}",
    )


def int8_table(results: Results) -> Table:
    """Models and subjects down."""
    rows: list[tuple[str, ...]] = []
    for run in sorted(results.runs.values(), key=lambda run: str(run.at["model"])):
        at = run.at
        cells = ["-"] * 5
        if at["subject"] != PREFILL:
            cells = [
                *(with_interval(results.metric(what, **at)) for what in ("same_answer", "same_evidence")),
                f"{results.value('answered', **at, side='float32'):.2f}",
                f"{results.value('answered', **at, side='int8'):.2f}",
                drop_cell(results, run),
            ]
        moved = bracketed(results, "divergence", 4, **at) if at["subject"] == PREFILL else "-"
        fast = bracketed(results, "times_as_fast", 2, **at)
        rows.append((str(at["model"]), str(at["subject"]), str(run.counts["examples"]), fast, moved, *cells))
    capabilities = ", ".join(sorted({str(run.config["processor"]) for run in results.runs.values()}))
    return Table(
        name="int8",
        caption=(
            "int8 beside float32 on the same examples in one run: how many times as fast, and whether it says the same."
        ),
        columns=(
            "Model",
            "Examples",
            "n",
            "times as fast",
            "KL, nats",
            "same answer",
            "same evidence set",
            "answered, float32",
            "answered, int8",
            "drop difference, nats",
        ),
        rows=tuple(rows),
        notes=(
            f"Prefill: {PREFILL_TOKENS:,} tokens, KL of the next token at the last {LAST}. Records: {RECORDS} "
            f"sentences, forced choice. Needles: documents of {NEEDLE_TOKENS} tokens in lines. Seconds are CPU seconds "
            f"of one thread, on processors that torch calls {capabilities}. Square brackets: 95 % Wilson interval; "
            "round ones: quartiles over examples. Drop difference: of the blocks that hold the answer, where float32 "
            "answers; after it the median drop itself.",
        ),
    )


def int8_claims(results: Results) -> list[Claim]:
    """Whether rounding leaves the labels what they are."""
    return [
        every_claim(
            f"int8 finds the evidence sets of float32 ({run.at['model']}, {run.at['subject']}): at least {SAME_SETS}",
            "not in it",
            [results.metric("same_evidence", **run.at)],
            SAME_SETS,
            f"{run.counts['examples']} examples",
        )
        for run in results.runs.values()
        if run.at["subject"] != PREFILL
    ]


def drop_cell(results: Results, run: RunResult) -> str:
    if not any(metric.what == "drop_gap" for metric in run.metrics):
        return "-"
    return f"{bracketed(results, 'drop_gap', 2, **run.at)} of {results.value('drop', **run.at, quantile='median'):.1f}"


EXPERIMENT = Experiment(
    NAME,
    place=73,
    jobs=jobs,
    reports=(Report("int8 beside float32: speed, answers, evidence sets, drops", "cost", int8_table, beyond=True),),
    claims=int8_claims,
    bench=True,
)

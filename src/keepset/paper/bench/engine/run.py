"""What labels cost: the paper's forwards against the engine's, and two other tools on the same records.

Every side labels the same examples in one run, in an order that rotates from unit to unit, on one thread. A unit is
one example of records, or one batch of a teacher. What each side computes of a unit:

    reference   the paper's numbers literally: the clean context, every block hidden, every block alone (2N + 1 rows)
    exact       the same numbers through the fast executor
    grouped     clean and every block alone; blocks hidden in groups, singly only where a group moves the answer
    certified   one set proved sufficient, necessary and stable among decoys; ``grouped`` where there is no proof
    evidence    the evidence set alone: clean, every block alone, every block hidden where no block is enough
    attribution every block alone: which block the answer comes from, which is what the other tools answer
    captum      the answer's log-probability without each record's text (N + 1 rows)
    contextcite the answer's log-odds on 64 random halves of the records, and a sparse fit
    clean       one forward of the whole context: the limit

Seconds are CPU seconds of the one thread, so that a busy machine does not count; wall seconds are kept beside them.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import Example
from keepset.files import Frozen
from keepset.interventions import Effects, Effort, Fast, ForcedChoice, GoldToken, Probe, Reference, Score, Scorer
from keepset.labels import evidence_sets, keep_sets
from keepset.paper.bench.engine import peers
from keepset.paper.bench.engine.tally import (
    ATTRIBUTION,
    EFFORTS,
    EVIDENCE,
    TOLERANCE,
    Ask,
    Spent,
    Tally,
    compare,
    metrics,
    tops,
)
from keepset.paper.bench.models import TINY, loaded
from keepset.paper.bench.timing import one_thread, rotated
from keepset.paper.experiment import Jobs, run_result
from keepset.paper.result import RunResult
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.records import RecordExample, sample_records
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.paper.testbed.teachers.teacher import build_teacher, load_teacher

NAME = "engine"
PRETRAINED = "smollm2-135m-instruct"


class Setting(Frozen):
    """One subject at one length: one result file."""

    subject: str
    """teacher (unique retrieval) or records (unique retrieval in natural language, forced choice)."""
    model: str
    """Bundled model, folder of a teacher, or 'tiny' for untrained weights."""
    n_blocks: int
    units: int
    """At most; fewer when ``budget`` runs out first."""
    budget: float = 600.0
    """CPU seconds after which no further unit is started. The first always runs."""
    batch: int = 1
    """Examples of one unit; labelled together."""
    reference_rows: int | None = None
    """Rows the reference really runs per unit, drawn at random; its seconds and tokens are scaled up to all of
    them, which cost the same. None: all."""
    peer_units: int = 0
    """On how many of the units the other tools run too."""

    @property
    def name(self) -> str:
        return f"{self.subject}-{self.n_blocks}"


def jobs(scale: str) -> Jobs:
    """One result per setting."""
    return {f"{NAME}/{setting.name}": partial(run, scale, setting) for setting in settings(scale)}


def settings(scale: str) -> tuple[Setting, ...]:
    """Sizes of a scale; ``small`` and ``paper`` ask the same of the same models."""
    if scale == "smoke":
        return (
            Setting(subject="teacher", model=TINY, n_blocks=9, units=2, batch=2),
            Setting(subject="records", model=TINY, n_blocks=16, units=2, peer_units=1),
        )
    folder = teacher_folder(scale, "single-hop", 0).as_posix()
    trained = find_preset(scale)("single-hop", 0).n_blocks
    teacher = [
        Setting(subject="teacher", model=folder, n_blocks=trained * length, units=12, budget=60, batch=16)
        for length in (1, 2, 4)
    ]
    return (
        *teacher,
        Setting(subject="records", model=PRETRAINED, n_blocks=16, units=4, budget=300, peer_units=4),
        Setting(subject="records", model=PRETRAINED, n_blocks=32, units=3, reference_rows=16, peer_units=3),
        Setting(subject="records", model=PRETRAINED, n_blocks=64, units=1, reference_rows=16, peer_units=1),
        Setting(subject="records", model=PRETRAINED, n_blocks=128, units=1, reference_rows=16),
    )


@dataclass
class Subject:
    """What is labelled."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    units: list[list[Example]]
    scorer: Scorer


def run(scale: str, setting: Setting) -> RunResult:
    """Measures one setting."""
    started = time.monotonic()
    with one_thread():
        subject = load_subject(scale, setting)
        others, batch_sizes = load_peers(subject) if setting.peer_units else ({}, {})
        tally = measure(setting, subject, others)
    result = run_result(
        NAME,
        scale,
        started,
        at={"subject": setting.subject, "n_blocks": setting.n_blocks},
        command=f"keepset bench {NAME}",
        config={
            **setting.model_dump(mode="json"),
            "threads": 1,
            "dtype": str(subject.model.dtype).removeprefix("torch."),
            "scorer": type(subject.scorer).__name__,
            "context_tokens": len(subject.units[0][0].tokens),
            "tolerance": TOLERANCE,
            "contextcite_batch_seconds": {str(size): round(value, 2) for size, value in batch_sizes.items()},
        },
        seeds={"evaluation": bench_seed(setting)},
        counts={
            "parameters": sum(p.numel() for p in subject.model.parameters()),
            "units": len(tally.same_labels),
            "examples": len(tally.annotated),
            "rows_compared": tally.rows_compared,
        },
        metrics=metrics(tally),
    )
    compared = peers.versions() if others else {}
    return result.model_copy(update={"versions": result.versions | compared})


def bench_seed(setting: Setting) -> int:
    """Away from the seeds of the teachers' evaluation sets (run 0)."""
    return seeds.EVALUATION.seed(2, setting.n_blocks)


def load_subject(scale: str, setting: Setting) -> Subject:
    """Model and examples of a setting."""
    n = setting.units * setting.batch
    tokenizer: PreTrainedTokenizerBase | None = None
    examples: Sequence[Example]
    scorer: Scorer
    if setting.subject == "teacher":
        if setting.model == TINY:
            config = find_preset(scale)("single-hop", 0)
            model = build_teacher(config).eval()
        else:
            model, config = load_teacher(teacher_folder(scale, "single-hop", 0))
        batch = sample_condition(
            "unique", bench_seed(setting), n, setting.n_blocks, config.block_width, config.vocabulary
        )
        examples, scorer = [batch.example(i) for i in range(n)], GoldToken()
    else:
        model, tokenizer = loaded(setting.model)
        examples = sample_records(tokenizer, bench_seed(setting), setting.n_blocks, n=n)
        scorer = ForcedChoice(written_candidates)
    units = [list(examples[start : start + setting.batch]) for start in range(0, n, setting.batch)]
    return Subject(model, tokenizer, units, scorer)


def written_candidates(example: Example) -> Sequence[tuple[int, ...]]:
    assert isinstance(example, RecordExample)
    return example.candidates


def load_peers(subject: Subject) -> tuple[dict[str, peers.Score], dict[int, float]]:
    """The other tools, ContextCite at its fastest batch size, and the seconds that chose it."""
    example = subject.units[0][0]
    assert subject.tokenizer is not None
    assert isinstance(example, RecordExample)
    size, seconds = peers.best_batch_size(subject.model, subject.tokenizer, example)
    return {
        "captum": peers.captum_ablation(subject.model, subject.tokenizer),
        "contextcite": peers.context_cite(subject.model, subject.tokenizer, size),
    }, seconds


def measure(setting: Setting, subject: Subject, others: dict[str, peers.Score]) -> Tally:
    """All sides on all units."""
    tally = Tally()
    warm_up(subject)
    started = time.process_time()
    for unit in range(setting.units):
        if unit and time.process_time() - started > setting.budget:
            break
        measure_unit(tally, unit, setting, subject, others if unit < setting.peer_units else {})
    return tally


def measure_unit(tally: Tally, unit: int, setting: Setting, subject: Subject, others: dict[str, peers.Score]) -> None:
    """All sides on one unit; the side that starts is another one each time."""
    examples = subject.units[unit]
    asks = all_asks(examples)
    rows = asks
    if setting.reference_rows is not None:
        rows = random.Random(seeds.INTERVENTION.seed(0, unit)).sample(asks, setting.reference_rows)
    # Made before the clock starts: an executor tries the model on a few tokens first.
    effects = {effort: Effects(examples, Fast(subject.model), subject.scorer, effort=effort) for effort in EFFORTS}
    evidence, attribution = (Effects(examples, Fast(subject.model), subject.scorer) for _ in range(2))
    paper = Probe(examples, Reference(subject.model), subject.scorer)
    limit = Probe(examples, Fast(subject.model), subject.scorer)
    reference: list[Score] = []

    def run_effort(effort: Effort) -> None:
        _ = effects[effort].hidden, effects[effort].alone  # computed when asked for

    def run_reference() -> None:
        reference.extend(paper.score(rows))

    def run_evidence() -> None:
        tally.evidence[EVIDENCE] += keep_sets(evidence_sets(evidence))

    def run_attribution() -> None:
        for example, log_probs in zip(examples, attribution.alone.log_prob.tolist(), strict=True):
            tally.found[ATTRIBUTION].append(tops(log_probs, example))

    def run_peer(side: str) -> None:
        for example in examples:
            assert isinstance(example, RecordExample)
            tally.found[side].append(tops(others[side](example), example))

    def run_clean() -> None:
        limit.score([(i, limit.blocks(i)) for i in range(len(examples))])

    sides: dict[str, Callable[[], None]] = {"reference": run_reference}
    sides |= {effort: partial(run_effort, effort) for effort in EFFORTS}
    sides |= {EVIDENCE: run_evidence, ATTRIBUTION: run_attribution}
    sides |= {side: partial(run_peer, side) for side in others}
    sides |= {"clean": run_clean}
    for side in rotated(list(sides), unit):
        tally.spent[side][unit] = spend(subject.model, sides[side]).scaled(1 / len(examples))
    tally.spent["reference"][unit] = tally.spent["reference"][unit].scaled(len(asks) / len(rows))
    compare(tally, examples, effects, dict(zip(rows, reference, strict=True)))


def warm_up(subject: Subject) -> None:
    """The first forward of a process pays for allocations; nobody's time."""
    probe = Probe(subject.units[0][:1], Fast(subject.model), subject.scorer)
    probe.score([(0, probe.blocks(0)), (0, frozenset({0}))])


def all_asks(examples: list[Example]) -> list[Ask]:
    """The paper's 2N + 1 keep sets of every example."""
    asks: list[Ask] = []
    for i, example in enumerate(examples):
        blocks = frozenset(range(len(example.blocks)))
        asks.append((i, blocks))
        asks += [(i, blocks - {block}) for block in sorted(blocks)]
        asks += [(i, frozenset({block})) for block in sorted(blocks)]
    return asks


def spend(model: PreTrainedModel, work: Callable[[], None]) -> Spent:
    """Runs ``work``; CPU and wall seconds, and the tokens that went through the model."""
    with counting(model) as tokens:
        wall, seconds = time.perf_counter(), time.process_time()
        work()
        return Spent(time.process_time() - seconds, time.perf_counter() - wall, sum(tokens))


@contextmanager
def counting(model: PreTrainedModel) -> Iterator[list[int]]:
    """Token positions of every forward, padding included; at the embeddings, which nobody can bypass."""
    tokens: list[int] = []

    def count(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        tokens.append(arguments[0].numel())

    handle = model.get_input_embeddings().register_forward_pre_hook(count)
    try:
        yield tokens
    finally:
        handle.remove()

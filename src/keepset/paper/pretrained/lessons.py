"""What record routers learn from: examples of their own, labels that cost a forward kept on disk part by part.

    lessons/<scale>/<model>/<of>/<label>/<first>-<stop>.json      (B, N) numbers: attention, trace, drops

Lessons alternate between unique retrieval and conflicting facts; annotated evidence costs nothing and is never stored.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from keepset.files import read_json, write_json
from keepset.interventions import Effects, Effort, Fast, ForcedChoice
from keepset.labels import task_evidence
from keepset.paper.pretrained.examples import SINGLE, draw, draw_chains
from keepset.paper.pretrained.judge import Choice, candidates
from keepset.paper.pretrained.readings import ATTENTION, TRACE, read
from keepset.paper.pretrained.routers import router_tokens, train_record_routers
from keepset.paper.pretrained.settings import RECORDS, Setting, frozen, parts
from keepset.paper.testbed.tasks.records import RecordExample
from keepset.routers.targets import as_distribution

RECOVERED = "recovered"
IMITATION, CAUSAL = "imitation", "causal"
NO_SINK = "no sink"
MIXED = "mixed"
"""Lessons of both tasks without a sentence before them."""
ARMS = {
    (IMITATION, "kept"): "imitation",
    (IMITATION, NO_SINK): "imitation, no sink",
    (CAUSAL, "kept"): "causal",
    (CAUSAL, NO_SINK): "causal, no sink",
}
"""Supervision, and whether record 0 is in target and selection."""

Examples = Callable[[range], Sequence[Choice]]
"""Numbers of lessons -> the lessons."""


def mixed_lessons(setting: Setting, records: int, numbers: range, before: str = "") -> list[RecordExample]:
    """Lesson i is of the first task where i is even, of the second where it is odd."""
    found: list[RecordExample] = []
    for i in numbers:
        number = i // len(SINGLE)
        task = SINGLE[i % len(SINGLE)]
        found += draw(setting, task, records, range(number, number + 1), before, learning=True)
    return found


def chain_lessons(setting: Setting, numbers: range) -> list[RecordExample]:
    """Of two hops."""
    return list(draw_chains(setting, RECORDS, numbers, learning=True))


def effects_of(setting: Setting, examples: Sequence[Choice], effort: Effort = "exact") -> Effects:
    """What hiding each record does to the forced choice."""
    return Effects(examples, Fast(frozen(setting)[0]), ForcedChoice(candidates), effort)


def _readout(name: str) -> Callable[[Setting, Sequence[Choice]], Tensor]:
    def label(setting: Setting, examples: Sequence[Choice]) -> Tensor:
        model, _ = frozen(setting)
        return torch.stack([read(model, example, (name,))[name] for example in examples])

    return label


LABELS: dict[str, Callable[[Setting, Sequence[Choice]], Tensor]] = {
    ATTENTION: _readout(ATTENTION),
    TRACE: _readout(TRACE),
    RECOVERED: lambda setting, examples: effects_of(setting, examples).drop,
}
"""Name -> (B, N) numbers of some lessons; ``recovered`` are drops, without annotations."""


def label_path(scale: str, setting: Setting, of: str, label: str, numbers: range) -> Path:
    """From the folder keepset is run in."""
    return Path("lessons") / scale / setting.name / of / label / f"{numbers.start}-{numbers.stop}.json"


def labelled(scale: str, setting: Setting, of: str, label: str, examples: Examples, n: int) -> Tensor:
    """(n, N) labels of the first ``n`` lessons; parts that are on disk are not computed again."""
    rows: list[list[float]] = []
    for _, numbers in parts(n, setting.part):
        path = label_path(scale, setting, of, label, numbers)
        if not path.exists():
            write_json(path, LABELS[label](setting, examples(numbers)).tolist())
        rows += read_json(path, "labels of lessons")
    return torch.tensor(rows)


def annotated(examples: Sequence[Choice]) -> Tensor:
    """(B, 1, N) the one set to cover."""
    return task_evidence(examples, len(examples[0].blocks)).unsqueeze(1)


def without_sink(target: Tensor) -> Tensor:
    """The target without record 0."""
    rest = target.clone()
    rest[..., 0] = 0
    return rest


def arm_name(supervision: str, sink: str) -> str:
    return ARMS[supervision, sink]


@lru_cache(maxsize=2)
def trained(scale: str, setting: Setting, n: int, before: str = "", of: str = MIXED) -> dict[str, nn.Module]:
    """Arm of ``ARMS`` -> span router, all from the same ``n`` lessons of 16 records."""
    lessons = mixed_lessons(setting, RECORDS, range(n), before)
    attention = labelled(
        scale, setting, of, ATTENTION, lambda numbers: mixed_lessons(setting, RECORDS, numbers, before), n
    )
    evidence = annotated(lessons)
    targets = {
        arm_name(IMITATION, "kept"): as_distribution(attention),
        arm_name(IMITATION, NO_SINK): as_distribution(without_sink(attention)),
        arm_name(CAUSAL, "kept"): evidence,
        arm_name(CAUSAL, NO_SINK): without_sink(evidence),
    }
    return train_record_routers("span", vocabulary(setting), router_tokens(lessons), targets, setting.least_steps)


def vocabulary(setting: Setting) -> int:
    """Tokens of the model."""
    return int(frozen(setting)[0].config.get_text_config().vocab_size)

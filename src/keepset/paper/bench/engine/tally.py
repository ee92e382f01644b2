"""Keeping account of a benchmark: what each side spent, what it said, and the numbers that come of it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from keepset.blocks import Example, KeepSet
from keepset.interventions import Effects, Effort, Score
from keepset.paper.bench.timing import MEDIAN, quartiles, ratios
from keepset.paper.result import Metric
from keepset.paper.statistics import share

TOLERANCE = 1e-3
"""Nats by which two executors may differ."""
EFFORTS: tuple[Effort, ...] = ("exact", "grouped", "certified")
EVIDENCE = "evidence"
"""The evidence set and nothing else: every block alone; every block hidden only where none is enough."""
ATTRIBUTION = "attribution"
"""Only what the other tools answer, which block it comes from: the answer's log-probability given each block alone."""
PEERS = ("captum", "contextcite")

Ask = tuple[int, KeepSet]


@dataclass
class Spent:
    """What one side spent on one unit, per example."""

    seconds: float
    """CPU seconds."""
    wall_seconds: float
    tokens: float

    def scaled(self, factor: float) -> "Spent":
        return Spent(self.seconds * factor, self.wall_seconds * factor, self.tokens * factor)


@dataclass
class Tally:
    """Everything counted over the units."""

    spent: dict[str, dict[int, Spent]] = field(default_factory=lambda: defaultdict(dict))
    """Side -> unit -> what it cost."""
    found: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Side -> per example: the annotated record alone has the highest score."""
    evidence: dict[str, list[KeepSet]] = field(default_factory=lambda: defaultdict(list))
    """Effort -> per example: the paper's label."""
    necessary: dict[str, list[KeepSet]] = field(default_factory=lambda: defaultdict(list))
    """Effort -> per example: blocks whose hiding flips the answer."""
    annotated: list[KeepSet] = field(default_factory=list)
    certified: list[bool] = field(default_factory=list)
    clean_correct: list[bool] = field(default_factory=list)
    same_labels: list[bool] = field(default_factory=list)
    """Per unit: every row the reference ran says the same as the fast executor's."""
    rows_compared: int = 0
    gap: float = 0.0
    """Largest difference in log-probability, in nats."""


def compare(tally: Tally, examples: list[Example], effects: dict[Effort, Effects], reference: dict[Ask, Score]) -> None:
    """Enters what the sides said about one unit."""
    exact = effects["exact"]
    same = True
    for (i, keep), score in reference.items():
        (other,) = exact.probe.score([(i, keep)])  # remembered, not run again
        gap = abs(score.log_prob - other.log_prob)
        tally.gap = max(tally.gap, gap)
        same = same and score.correct == other.correct and gap <= TOLERANCE
    tally.same_labels.append(same)
    tally.rows_compared += len(reference)
    tally.annotated += [example.evidence for example in examples]
    tally.clean_correct += exact.clean_correct.tolist()
    tally.certified += effects["certified"].certified.tolist()
    for effort in EFFORTS:
        drop, flip, sufficient = effects[effort].drop, effects[effort].flip, effects[effort].sufficient
        for i, example in enumerate(examples):
            alone = frozenset(sufficient[i].nonzero().flatten().tolist())
            necessary = frozenset(flip[i].nonzero().flatten().tolist())
            tally.evidence[effort].append(alone or necessary)
            tally.necessary[effort].append(necessary)
            tally.found[effort].append(tops(drop[i].tolist(), example))


def tops(scores: list[float], example: Example) -> bool:
    """The annotated record has the highest score, and nothing shares it."""
    (record,) = example.evidence
    return all(score < scores[record] for block, score in enumerate(scores[: len(example.blocks)]) if block != record)


def metrics(tally: Tally) -> Iterator[Metric]:
    """Medians over units, ratios unit by unit with their quartiles, and shares."""
    for side, spent in tally.spent.items():
        for what in ("seconds", "wall_seconds", "tokens"):
            value = median(getattr(unit, what) for unit in spent.values())
            yield Metric(what=what, at={"side": side, "quantile": MEDIAN}, value=value, n=len(spent))
    for side in (*EFFORTS, EVIDENCE):
        yield from times(tally, "reference", side)
    for peer in PEERS:
        if peer in tally.spent:
            for side in (*EFFORTS, EVIDENCE, ATTRIBUTION):
                yield from times(tally, peer, side)
    yield share("same_labels", sum(tally.same_labels), len(tally.same_labels))
    yield Metric(what="largest_gap", value=tally.gap, n=tally.rows_compared)
    n = len(tally.annotated)
    yield share("clean_correct", sum(tally.clean_correct), n)
    yield share("certificates", sum(tally.certified), n)
    for side in (*EFFORTS, EVIDENCE):
        same = [a == b for a, b in zip(tally.evidence[side], tally.evidence["exact"], strict=True)]
        yield share("same_set", sum(same), n, side=side)
    for effort in EFFORTS:
        flips = [a == b for a, b in zip(tally.necessary[effort], tally.necessary["exact"], strict=True)]
        gold = [a == b for a, b in zip(tally.evidence[effort], tally.annotated, strict=True)]
        yield share("same_necessary", sum(flips), n, side=effort)
        yield share("annotated_set", sum(gold), n, side=effort)
        yield Metric(what="set_size", at={"side": effort}, value=sum(map(len, tally.evidence[effort])) / n, n=n)
    for side, found in tally.found.items():
        yield share("found", sum(found), len(found), side=side)


def times(tally: Tally, slow: str, quick: str) -> Iterator[Metric]:
    """How many times ``slow`` costs of ``quick``: ``seconds_times`` and ``tokens_times`` over the units both ran."""
    units = [unit for unit in tally.spent[slow] if unit in tally.spent[quick]]
    for what in ("seconds", "tokens"):
        spent = ([getattr(tally.spent[side][unit], what) for unit in units] for side in (slow, quick))
        yield from quartiles(f"{what}_times", ratios(*spent), side=quick, against=slow)

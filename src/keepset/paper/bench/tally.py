"""Keeping account of a benchmark: what each side spent, what it said, and the numbers that come of it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median, quantiles

from keepset.blocks import Example, KeepSet
from keepset.interventions import Effects, Mode, Score
from keepset.paper.result import Metric
from keepset.paper.statistics import proportion

TOLERANCE = 1e-3
"""Nats by which two executors may differ."""
MODES: tuple[Mode, ...] = ("exact", "grouped", "certified")
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
    wall: float
    tokens: float

    def scaled(self, factor: float) -> "Spent":
        return Spent(self.seconds * factor, self.wall * factor, self.tokens * factor)


@dataclass
class Tally:
    """Everything counted over the units."""

    spent: dict[str, dict[int, Spent]] = field(default_factory=lambda: defaultdict(dict))
    """Side -> unit -> what it cost."""
    found: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Side -> per example: the annotated record alone has the highest score."""
    evidence: dict[str, list[KeepSet]] = field(default_factory=lambda: defaultdict(list))
    """Mode -> per example: the paper's label."""
    necessary: dict[str, list[KeepSet]] = field(default_factory=lambda: defaultdict(list))
    """Mode -> per example: blocks whose hiding flips the answer."""
    annotated: list[KeepSet] = field(default_factory=list)
    certified: list[bool] = field(default_factory=list)
    clean_correct: list[bool] = field(default_factory=list)
    same_labels: list[bool] = field(default_factory=list)
    """Per unit: every row the reference ran says the same as the fast executor's."""
    rows_compared: int = 0
    gap: float = 0.0
    """Largest difference in log-probability, in nats."""


def compare(tally: Tally, examples: list[Example], effects: dict[Mode, Effects], reference: dict[Ask, Score]) -> None:
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
    for mode in MODES:
        drop, flip, sufficient = effects[mode].drop, effects[mode].flip, effects[mode].sufficient
        for i, example in enumerate(examples):
            alone = frozenset(sufficient[i].nonzero().flatten().tolist())
            necessary = frozenset(flip[i].nonzero().flatten().tolist())
            tally.evidence[mode].append(alone or necessary)
            tally.necessary[mode].append(necessary)
            tally.found[mode].append(tops(drop[i].tolist(), example))


def tops(scores: list[float], example: Example) -> bool:
    """The annotated record has the highest score, and nothing shares it."""
    (record,) = example.evidence
    return all(score < scores[record] for block, score in enumerate(scores[: len(example.blocks)]) if block != record)


def metrics(tally: Tally) -> Iterator[Metric]:
    """Medians over units, ratios unit by unit with their quartiles, and shares."""
    for side, spent in tally.spent.items():
        n = len(spent)
        yield Metric(name=f"{side}_seconds", value=median(s.seconds for s in spent.values()), n=n)
        yield Metric(name=f"{side}_wall_seconds", value=median(s.wall for s in spent.values()), n=n)
        yield Metric(name=f"{side}_tokens", value=median(s.tokens for s in spent.values()), n=n)
    for side in (*MODES, EVIDENCE):
        yield from ratio(tally, "reference", side)
    for peer in PEERS:
        if peer in tally.spent:
            for side in (*MODES, EVIDENCE, ATTRIBUTION):
                yield from ratio(tally, peer, side)
    yield proportion("same_labels", sum(tally.same_labels), len(tally.same_labels))
    yield Metric(name="largest_gap", value=tally.gap, n=tally.rows_compared)
    n = len(tally.annotated)
    yield proportion("clean_correct", sum(tally.clean_correct), n)
    yield proportion("certificates", sum(tally.certified), n)
    for side in (*MODES, EVIDENCE):
        same = [a == b for a, b in zip(tally.evidence[side], tally.evidence["exact"], strict=True)]
        yield proportion(f"{side}_same_set", sum(same), n)
    for mode in MODES:
        flips = [a == b for a, b in zip(tally.necessary[mode], tally.necessary["exact"], strict=True)]
        gold = [a == b for a, b in zip(tally.evidence[mode], tally.annotated, strict=True)]
        yield proportion(f"{mode}_same_necessary", sum(flips), n)
        yield proportion(f"{mode}_annotated_set", sum(gold), n)
        yield Metric(name=f"{mode}_set_size", value=sum(map(len, tally.evidence[mode])) / n, n=n)
    for side, found in tally.found.items():
        yield proportion(f"{side}_found", sum(found), len(found))


def ratio(tally: Tally, slow: str, quick: str) -> Iterator[Metric]:
    """How many times ``slow`` costs of ``quick``: median and quartiles over the units both ran."""
    units = [unit for unit in tally.spent[slow] if unit in tally.spent[quick]]
    pairs = [(tally.spent[slow][unit], tally.spent[quick][unit]) for unit in units]
    for what, values in (
        ("seconds", [a.seconds / b.seconds for a, b in pairs]),
        ("tokens", [a.tokens / b.tokens for a, b in pairs]),
    ):
        low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        yield Metric(name=f"{slow}_over_{quick}_{what}", value=median(values), n=len(values))
        yield Metric(name=f"{slow}_over_{quick}_{what}_q25", value=low, n=len(values))
        yield Metric(name=f"{slow}_over_{quick}_{what}_q75", value=high, n=len(values))

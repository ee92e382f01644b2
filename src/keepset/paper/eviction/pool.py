"""Parts of an eviction run as one, pooled by counts; and two policies paired, question by question."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keepset.paper import statistics
from keepset.paper.eviction.columns import ALL_CONDITIONS, CAUSAL, CONDITIONS, MODES, TITLES, Arm
from keepset.paper.eviction.paper_numbers import LENGTHS, PAPER
from keepset.paper.eviction.tally import only_first
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import bounds, share
from keepset.pruning.cache import EvictionMode


class Place(NamedTuple):
    """Where a number stands; what holds for every policy has no more than the first two."""

    what: str
    condition: str
    regime: str | None = None
    mode: str | None = None
    arm: Arm | None = None
    budget: float | None = None


@dataclass(frozen=True)
class Pool:
    """Everything counted on one model at one length, over all tasks and parts."""

    model: str
    length: int
    train_length: int
    blocks: int | str
    """How many of 32 tokens, in results of the first protocol; else how documents were cut."""
    numbers: dict[Place, dict[str, Metric]]
    """Place -> part -> number."""

    @property
    def subject(self) -> str:
        """The model, and the protocol where it is not the first: results of two protocols never share a row."""
        return self.model if isinstance(self.blocks, int) else f"{self.model}, {self.blocks}s"

    @property
    def slug(self) -> str:
        """``subject`` in names of tables."""
        return self.subject.replace(", ", "-")

    @property
    def modes(self) -> list[EvictionMode]:
        """Those that were run."""
        found = {place.mode for place in self.numbers}
        return [mode for mode in MODES if mode in found]

    @property
    def tasks(self) -> dict[str, str]:
        """Conditions that are taken together: the control too, where outcomes let documents be clusters."""
        return CONDITIONS if isinstance(self.blocks, int) else ALL_CONDITIONS

    @property
    def times(self) -> float:
        """Length over the routers' training length."""
        return self.length / self.train_length

    def conditions(self, known: Iterable[str]) -> list[str]:
        """Those of ``known`` that were run."""
        return [condition for condition in known if Place("dense", condition) in self.numbers]

    def arms(self, regime: str) -> dict[Arm, None]:
        """Every policy that was run in the regime."""
        found = (place for place in self.numbers if (place.what, place.regime) == ("preserved", regime))
        return {place.arm: None for place in found if place.arm}

    def pooled(self, place: Place) -> Metric | None:
        """One share of the questions of all parts; None where no part has it."""
        parts = self.numbers.get(place)
        return statistics.pooled(place.what, parts.values()) if parts else None

    def solved(self, condition: str) -> int:
        """Questions the model answers with everything visible."""
        dense = self.pooled(Place("dense", condition))
        return round(dense.value * dense.n) if dense else 0

    def share(
        self, condition: str, regime: str, mode: str, arm: Arm, budget: float, what: str = "preserved"
    ) -> Metric | None:
        return self.pooled(Place(what, condition, regime, mode, arm, budget))

    def only_causal(self, condition: str, mode: str, rival: Arm, budget: float) -> Metric | None:
        """The share, pre-query, that the causal router answers and the rival does not."""
        causal, other = (
            self.numbers.get(Place("preserved", condition, "pre_query", mode, arm, budget), {})
            for arm in (CAUSAL, rival)
        )
        # Tracked files without outcomes have the share itself instead.
        counted = self.numbers.get(Place("only_causal", condition, "pre_query", mode, rival, budget), {})
        ahead = n = 0
        for part, first in causal.items():
            second = other.get(part)
            if second is not None and first.each is not None and second.each is not None:
                ahead += only_first(first.each, second.each)
            elif part in counted:
                ahead += round(counted[part].value * counted[part].n)
            else:
                return None
            n += first.n
        return share("only_causal", ahead, n) if n else None

    def gaps(self, condition: str, mode: str, rival: Arm, budget: float) -> dict[str, int] | None:
        """Document -> causal minus rival, pre-query, where the question was counted; None without every outcome."""
        causal, other = (
            self.numbers.get(Place("preserved", condition, "pre_query", mode, arm, budget), {})
            for arm in (CAUSAL, rival)
        )
        found: dict[str, int] = {}
        for part, first in causal.items():
            second = other.get(part)
            if second is None or first.each is None or second.each is None:
                return None
            for number, (mark, against) in enumerate(zip(first.each, second.each, strict=True)):
                if mark != ".":
                    found[f"{self.length} {part} {number}"] = int(mark) - int(against)
        return found or None

    def paper(self, condition: str, regime: str, arm: Arm, budget: float) -> str:
        """The paper's share at the same multiple of the training length; empty where it has none."""
        return PAPER.get((int(self.times), condition, regime, arm, budget), "") if self.times in LENGTHS else ""

    def preserved(self, condition: str, regime: str, mode: str, arm: Arm, budget: float) -> str:
        """With its interval and, where it has one, the paper's number."""
        found = self.share(condition, regime, mode, arm, budget)
        if found is None:
            return "-"
        if found.n != self.solved(condition):
            raise ValueError(
                f"{self.model}, {self.length} tokens, {condition}, {arm.policy}: expected all {self.solved(condition)} "
                f"questions the model answers, got {found.n}; run the parts that lack this policy"
            )
        paper = self.paper(condition, regime, arm, budget)
        return with_interval(found) + (f" ({paper})" if paper else "")


def titles(pools: Iterable[Pool], regime: str) -> dict[Arm, str]:
    """The paper's columns and others that have results, in our order; then any other policy under its own name."""
    found = dict.fromkeys(arm for pool in pools for arm in pool.arms(regime))
    papers = {arm for _, _, seen, arm, _ in PAPER if seen == regime}
    known = {arm: title for arm, title in TITLES[regime].items() if arm in papers or arm in found}
    others = [arm for arm in found if arm not in known and not arm.router_seed]
    return known | {arm: arm.policy for arm in others}


def pooled(results: Results) -> list[Pool]:
    """One pool per model, protocol and length, in this order; refuses parts that were not run alike.

    Results of the first protocol (32 tokens a block, one seed for all lengths, corrections that say "now", KVzip's
    maximum over heads) have no ``blocks`` among their coordinates, and pools of their own as long as they are tracked.
    """
    return results.once(_pools)


def _pools(results: Results) -> list[Pool]:
    runs: dict[tuple[str, str, int], list[RunResult]] = defaultdict(list)
    for run in results.runs.values():
        runs[str(run.at["model"]), str(run.at.get("blocks", "")), int(run.at["length"])].append(run)
    return [_pool(model, length, found) for (model, _, length), found in sorted(runs.items())]


def _pool(model: str, length: int, runs: Sequence[RunResult]) -> Pool:
    setting = run_of(runs[0])
    numbers: dict[Place, dict[str, Metric]] = defaultdict(dict)
    for run in runs:
        if run_of(run) != setting:
            raise ValueError(f"{model}, {length} tokens: expected parts run alike, got {setting} and {run_of(run)}")
        for metric in run.metrics:
            numbers[_place(metric.what, run.at | metric.at)][f"{run.at['task']}-{run.at['part']}"] = metric
    return Pool(model, length, setting["train_length"], setting["blocks"], dict(numbers))


def _place(what: str, at: At) -> Place:
    seed, policy = at.get("router_seed"), at.get("policy")
    arm = None if policy is None else Arm(str(policy), None if seed is None else int(seed))
    where = {name: at.get(name) for name in ("regime", "mode", "budget")}
    return Place(what, str(at["condition"]), arm=arm, **where)  # type: ignore[arg-type]  # as measure_policy writes them


def run_of(run: RunResult) -> dict[str, Any]:
    """What all parts and policies of a model and length share: routers, blocks, and how many of them are kept."""
    shared = ("blocks", "kept_blocks", "train_length", "pre_query_documents", "query_aware_documents")
    return {name: run.config.get(name) for name in shared} | {"steps": run.counts.get("steps")}


def with_interval(found: Metric) -> str:
    low, high = bounds(found)
    return f"{found.value:.2f} [{low:.2f}–{high:.2f}]"

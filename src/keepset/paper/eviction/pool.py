"""Parts of an eviction run as one, pooled by counts."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keepset.paper.eviction.paper_numbers import LENGTHS, PAPER
from keepset.paper.orderings_report import bounds
from keepset.paper.result import Metric, RunResult
from keepset.paper.statistics import proportion


@dataclass(frozen=True)
class Pool:
    """Everything counted on one model at one length, over all tasks and parts."""

    model: str
    length: int
    train_length: int
    blocks: int
    shares: dict[str, Metric]

    @property
    def times(self) -> float:
        """Length over the routers' training length."""
        return self.length / self.train_length

    def conditions(self, known: Iterable[str]) -> list[str]:
        """Those of ``known`` that were run."""
        return [condition for condition in known if f"{condition}/dense" in self.shares]

    def solved(self, condition: str) -> int:
        """Questions the model answers with everything visible."""
        dense = self.shares[f"{condition}/dense"]
        return round(dense.value * dense.n)

    def share(
        self, condition: str, regime: str, mode: str, policy: str, budget: str, what: str = "preserved"
    ) -> Metric | None:
        return self.shares.get(f"{condition}/{regime}/{mode}/{policy}/{budget}/{what}")

    def paper(self, condition: str, regime: str, policy: str, budget: str) -> str:
        """The paper's share at the same multiple of the training length; empty where it has none."""
        return PAPER.get((int(self.times), condition, regime, policy, budget), "") if self.times in LENGTHS else ""

    def preserved(self, condition: str, regime: str, mode: str, policy: str, budget: str) -> str:
        """With its interval and, where it has one, the paper's number."""
        share = self.share(condition, regime, mode, policy, budget)
        if share is None:
            return "-"
        if share.n != self.solved(condition):
            raise ValueError(
                f"{share.name}: expected all {self.solved(condition)} questions the model answers, got {share.n}; "
                "run the parts again that lack this policy"
            )
        paper = self.paper(condition, regime, policy, budget)
        return with_interval(share) + (f" ({paper})" if paper else "")


def pooled(results: Sequence[RunResult]) -> list[Pool]:
    """One pool per model and length, in this order; refuses parts that were not run alike."""
    parts: dict[tuple[str, int], list[RunResult]] = defaultdict(list)
    for result in results:
        parts[result.config["model"].split("/")[-1], result.config["length"]].append(result)
    return [_pool(model, length, found) for (model, length), found in sorted(parts.items())]


def _pool(model: str, length: int, results: list[RunResult]) -> Pool:
    setting = run_of(results[0])
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for result in results:
        if run_of(result) != setting:
            raise ValueError(f"{model}, {length} tokens: expected parts run alike, got {setting} and {run_of(result)}")
        for metric in result.metrics:
            counted[metric.name][0] += round(metric.value * metric.n)
            counted[metric.name][1] += metric.n
    shares = {name: proportion(name, right, n) for name, (right, n) in counted.items()}
    return Pool(model, length, setting["train_length"], setting["blocks"], shares)


def run_of(result: RunResult) -> dict[str, int]:
    """What all parts of a model and length share: the routers and the blocks."""
    config = result.config
    routers = {name: config[name] for name in ("train_length", "pre_query_documents", "query_aware_documents")}
    return {"blocks": config["blocks"], **routers, "steps": result.counts["steps"]}


def with_interval(share: Metric) -> str:
    low, high = bounds(share)
    return f"{share.value:.2f} [{low:.2f}–{high:.2f}]"

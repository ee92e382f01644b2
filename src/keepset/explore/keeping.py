"""The second view: what a policy keeps of a document at a budget, and what the model answers from that."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from keepset.blocks import KeepSet
from keepset.explain.report import Report
from keepset.explore.explorer import Explorer, FromKept, Ranking, Visit
from keepset.policies import POLICIES, Oracle, Policy, build_policy
from keepset.policies.policy import Context, score_checked
from keepset.pruning.budget import Budget, protected_blocks, select
from keepset.pruning.context import MAX_NEW_TOKENS
from keepset.pruning.pruner import Pruner
from keepset.text.prompt import Characters, lay_out

SHIPPED = "shipped"
"""The name of the router that ships with keepset, which is no policy of a model but reads text by itself."""
SHIPPED_TITLE = "the router that ships with keepset"


def policy_titles(explorer: Explorer) -> dict[str, str]:
    """Name -> title of every policy there is."""
    shipped = {SHIPPED: SHIPPED_TITLE} if explorer.compressor else {}
    return shipped | {name: build(explorer.tokenizer).title for name, build in POLICIES.items()}


def rank(explorer: Explorer, report: Report, policy: str, wants_question: bool) -> Ranking:
    """The policy's scores. One that can work in one way only, works in that way, and the ranking says so."""
    if policy == SHIPPED and explorer.compressor:
        began = time.perf_counter()
        asked = report.question if wants_question else None
        scores = scores_at(places(report), *explorer.compressor.score(report.context, asked))
        seconds = time.perf_counter() - began
        return Ranking(SHIPPED_TITLE, wants_question, scores, _lengths(report), seconds)
    chosen = build_policy(policy, explorer.tokenizer)
    reads = reads_question(chosen, wants_question)
    prompt = lay_out(explorer.tokenizer, report.context, places(report), report.question if reads else None)
    began = time.perf_counter()
    context = Context(explorer.model, prompt.tokens, prompt.blocks, prompt.question if reads else None)
    scores = score_checked(chosen, context)
    return Ranking(chosen.title, reads, scores, _lengths(report), time.perf_counter() - began)


def reads_question(policy: Policy, wanted: bool) -> bool:
    """Whether it ranks with the question: as wanted, where it can work so."""
    regime = "query_aware" if wanted else "pre_query"
    return wanted if regime in policy.regimes else not wanted


def scores_at(blocks: list[Characters], found: list[Characters], scores: Tensor) -> Tensor:
    """(N,) for each of ``blocks`` the score of the last of ``found`` that begins no later: they may be cut coarser."""
    starts = torch.tensor([start for start, _ in found])
    wanted = torch.tensor([start for start, _ in blocks])
    return scores[(torch.searchsorted(starts, wanted, right=True) - 1).clamp(min=0)]


def places(report: Report) -> list[Characters]:
    """The sentences, in characters."""
    return [(block.start, block.stop) for block in report.blocks]


def _lengths(report: Report) -> tuple[int, ...]:
    return tuple(block.tokens for block in report.blocks)


@dataclass(frozen=True)
class Cut:
    """A document at a budget."""

    ranking: Ranking
    kept: KeepSet
    protected: KeepSet
    """Kept whatever the policy says."""

    @property
    def tokens(self) -> int:
        return sum(self.ranking.lengths[number] for number in self.kept)


def cut(ranking: Ranking, share: float) -> Cut:
    """What ``share`` of the sentences keeps, by the Pruner's own rule; no model is needed for that."""
    budget = Budget.share_of_blocks(share)
    protected = protected_blocks(ranking.lengths, budget, keep_first=True, keep_recent=0)
    return Cut(ranking, select(ranking.scores, ranking.lengths, budget, protected), protected)


def read_kept(explorer: Explorer, report: Report, kept: KeepSet) -> FromKept:
    """The answer when only ``kept`` is ever read, at the places it had in the document."""
    pruner = Pruner(explorer.model, explorer.tokenizer, Oracle(kept), blocks=places(report), keep_first=False)
    began = time.perf_counter()
    pruned = pruner.prune(report.context, Budget.blocks(len(kept)))
    read = time.perf_counter()
    answer = pruned.ask(report.question, MAX_NEW_TOKENS)
    tokens = sum(report.blocks[number].tokens for number in kept)
    return FromKept(answer, len(kept), tokens, read - began, time.perf_counter() - read)


@dataclass(frozen=True)
class Comparison:
    """Three answers to one question; None where one is not there yet, or cannot be."""

    dense: FromKept | None
    pruned: FromKept | None
    evidence: FromKept | None
    """None to the end where the reply rests on no sentence."""
    finished: bool


def compare(explorer: Explorer, visit: Visit, shown: Cut) -> Iterator[Comparison]:
    """The three readings one after the other, as they come; what was read before is not read again."""
    report = visit.report
    if report is None:
        raise ValueError("visit: expected one with a report, got one without")
    wanted = [frozenset(block.number for block in report.blocks), shown.kept, frozenset(report.evidence)]
    for kept in wanted:
        if kept and kept not in visit.readings:
            yield _comparison(visit, wanted, shown.ranking, finished=False)
            visit.readings[kept] = read_kept(explorer, report, kept)
    yield _comparison(visit, wanted, shown.ranking, finished=True)


def _comparison(visit: Visit, wanted: list[KeepSet], ranking: Ranking, finished: bool) -> Comparison:
    dense, pruned, evidence = (visit.readings.get(kept) for kept in wanted)
    if pruned:
        pruned = replace(pruned, read_seconds=pruned.read_seconds + ranking.seconds)
    return Comparison(dense, pruned, evidence, finished)

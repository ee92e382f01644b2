"""What is kept at a budget, and the three answers."""

import pytest
import torch

from keepset.explain.report import Report
from keepset.explore.asking import ask
from keepset.explore.explorer import Explorer, Ranking, Visit
from keepset.explore.keeping import (
    SHIPPED,
    compare,
    cut,
    places,
    policy_titles,
    rank,
    read_kept,
    scores_at,
)
from keepset.policies import POLICIES
from keepset.pruning import Pruner
from tests.explore.tiny_explorer import tiny_explorer

DOCUMENT = "The code for NARO is 4821. The code for BELU is 3390. No code is new. The code is for HALE. It is now 7."
QUESTION = "What is the code for NARO?"


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return tiny_explorer()


@pytest.fixture(scope="module")
def report(explorer: Explorer) -> Report:
    found = ask(explorer, DOCUMENT, QUESTION, False, False, lambda share: None)
    assert isinstance(found, Report)
    return found.model_copy(update={"parts": tuple(p.model_copy(update={"evidence": (1, 3)}) for p in found.parts)})


def test_the_menu_has_every_policy_and_the_router_that_ships(explorer: Explorer) -> None:
    assert list(policy_titles(explorer)) == [SHIPPED, *POLICIES]


@pytest.mark.parametrize("policy", [SHIPPED, *POLICIES])
@pytest.mark.parametrize("wants", [False, True])
def test_every_policy_ranks_and_says_how(explorer: Explorer, report: Report, policy: str, wants: bool) -> None:
    ranking = rank(explorer, report, policy, wants)
    assert ranking.scores.shape == (5,)
    assert sum(ranking.lengths) == sum(block.tokens for block in report.blocks)
    if policy != SHIPPED:
        regimes = POLICIES[policy](explorer.tokenizer).regimes
        assert ("query_aware" if ranking.read_question else "pre_query") in regimes
        assert ranking.read_question == wants or len(regimes) == 1


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 1.0])
def test_what_is_shown_is_what_the_pruner_keeps(explorer: Explorer, report: Report, share: float) -> None:
    shown = cut(rank(explorer, report, "h2o", False), share)
    pruned = Pruner(explorer.model, explorer.tokenizer, "h2o").prune(DOCUMENT, share)
    assert sorted(shown.kept) == list(pruned.kept)
    assert shown.tokens == sum(block.tokens for block in pruned.record.blocks if block.kept)


def test_a_larger_budget_keeps_all_of_a_smaller_one() -> None:
    ranking = Ranking("x", False, torch.tensor([0.0, 3.0, 1.0, 2.0]), (5, 5, 5, 5), 0.0)
    kept = [cut(ranking, share).kept for share in (0.25, 0.5, 0.75, 1.0)]
    assert kept == [{1}, {0, 1}, {0, 1, 3}, {0, 1, 2, 3}]


def test_everything_kept_is_the_dense_answer(explorer: Explorer, report: Report) -> None:
    everything = frozenset(range(5))
    reading = read_kept(explorer, report, everything)
    assert reading.answer.strip() == report.said.strip()
    assert reading.tokens == sum(block.tokens for block in report.blocks)


def test_three_answers_come_one_after_the_other_and_are_kept(explorer: Explorer, report: Report) -> None:
    visit = Visit(report)
    shown = cut(rank(explorer, report, "recency", False), 0.6)
    stages = list(compare(explorer, visit, shown))
    there = [[r is not None for r in (stage.dense, stage.pruned, stage.evidence)] for stage in stages]
    assert there == [[False] * 3, [True, False, False], [True, True, False], [True] * 3]
    assert [stage.finished for stage in stages] == [False, False, False, True]
    last = stages[-1]
    readings = [reading for reading in (last.dense, last.pruned, last.evidence) if reading]
    assert [reading.sentences for reading in readings] == [5, 3, 2]
    assert readings[0].tokens > readings[1].tokens
    assert len(list(compare(explorer, visit, shown))) == 1  # nothing is read twice


def test_a_reply_without_evidence_has_no_third_answer(explorer: Explorer, report: Report) -> None:
    nowhere = report.model_copy(
        update={"parts": tuple(part.model_copy(update={"evidence": ()}) for part in report.parts)}
    )
    *_, last = compare(explorer, Visit(nowhere), cut(rank(explorer, report, "recency", False), 0.4))
    assert last.finished
    assert last.evidence is None


def test_scores_of_a_coarser_cut_go_to_every_sentence_inside() -> None:
    found = scores_at([(0, 4), (4, 9), (9, 12)], [(0, 9), (9, 12)], torch.tensor([2.0, 5.0]))
    assert found.tolist() == [2.0, 2.0, 5.0]


def test_places_are_the_sentences(report: Report) -> None:
    assert [DOCUMENT[start:stop].strip() for start, stop in places(report)][:2] == [
        "The code for NARO is 4821.",
        "The code for BELU is 3390.",
    ]

"""Every experiment at scale ``smoke``: its tables, its claims, what a second run finds, and what a kill leaves."""

import random
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.bench.models import loaded
from keepset.paper.catalogue import experiments
from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.eviction.tally import share_of
from keepset.paper.experiment import run_result
from keepset.paper.pretrained import examples, lessons, routing
from keepset.paper.pretrained.counterfactual import DEV, counterfactuals, kind, substitutes
from keepset.paper.pretrained.judge import choosing, judge
from keepset.paper.pretrained.lessons import ATTENTION, labelled, mixed_lessons, without_sink
from keepset.paper.pretrained.pool import paired_gap, paper_rows, pooled_share
from keepset.paper.pretrained.probing import CURRENT, keep_sets_of, prefers_obsolete
from keepset.paper.pretrained.readings import ACCUMULATED, READINGS, SINK, best, chance, read
from keepset.paper.pretrained.routers import shared_words
from keepset.paper.pretrained.routing_claims import repair, routing_claims
from keepset.paper.pretrained.settings import SETTINGS, Setting, frozen, parts
from keepset.paper.report import made
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.table import Figure, Table
from tests.paper.pretrained.conftest import NAMES

(SMOKE,) = SETTINGS["smoke"]


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_our_rows_and_the_papers(smoke: Results, name: str) -> None:
    experiment = experiments()[name]
    for report in experiment.reports:
        pages = made(report, experiment, smoke)
        assert pages, report.label
        for page in pages:
            if isinstance(page, Figure):
                assert "<svg" in page.svg
                continue
            assert isinstance(page, Table)
            assert page.rows[0][0] == "tiny"
            assert report.beyond or any(row and row[0].startswith("paper: ") for row in page.rows)
            assert page.latex()
            ours = [cell for row in page.rows if row and row[0] == "tiny" for cell in row]
            shares = [cell for cell in ours if re.match(r"[01]\.\d\d\b", cell)]
            assert all("[" in cell for cell in shares), "every share has an interval"


def test_nothing_is_claimed_of_a_few_examples(smoke: Results) -> None:
    told = [c for name in NAMES if (e := experiments()[name]).claims for c in e.claims(smoke.of(name))]
    assert told
    assert {claim.verdict for claim in told} == {OPEN}


def test_what_is_there_is_not_run_again(smoke_folder: Path, smoke: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(smoke_folder)
    run = CliRunner().invoke(app, ["reproduce", "pretrained", "--scale", "smoke"])
    assert run.exit_code == 0
    assert "4 of 4 results are there" in run.output
    assert sum(name.startswith("pretrained/") for name in smoke.runs) == 4


def test_only_some_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["reproduce", "pretrained", "--scale", "smoke", "--only", "unique-1"])
    assert run.exit_code == 0, run.output
    assert [path.stem for path in tmp_path.rglob("*.json")] == ["unique-1"]


def test_labels_of_a_killed_run_are_read_and_the_rest_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[range] = []

    def some(numbers: range) -> list[examples.RecordExample]:
        asked.append(numbers)
        return mixed_lessons(SMOKE, 8, numbers)

    first = labelled("smoke", SMOKE, "here", ATTENTION, some, 2)
    again = labelled("smoke", SMOKE, "here", ATTENTION, some, 4)
    assert asked == [range(0, 2), range(2, 4)], "the first part was on disk"
    assert torch.equal(first, again[:2])
    assert again.shape == (4, 8)


def test_lessons_take_turns_and_are_never_evaluated() -> None:
    found = mixed_lessons(SMOKE, 16, range(4))
    assert [bool(lesson.obsolete) for lesson in found] == [False, True, False, True]
    for task in examples.SINGLE:
        evaluated = {example.text for example in examples.draw(SMOKE, task, 16, range(20))}
        assert evaluated.isdisjoint(lesson.text for lesson in found)


def test_without_the_sink_record_0_is_in_no_target_and_never_kept() -> None:
    target = torch.tensor([[3.0, 1.0, 2.0]])
    assert without_sink(target).tolist() == [[0, 1, 2]]
    assert target[0, 0] == 3, "the other arm keeps its target"
    row = torch.tensor([9.0, *([0.0] * 14), 1.0])
    kept = routing.selections(dict.fromkeys(lessons.ARMS.values(), row), 16, 0)
    assert kept["imitation", 1] == SINK
    assert kept["imitation, no sink", 1] == kept["causal, no sink", 1] == {15}
    assert best(row, 2, barred=frozenset({15})) == {0, 1}


def test_what_is_hidden_and_kept_of_an_example() -> None:
    (example,) = examples.draw(SMOKE, "conflicting", 16, range(3, 4))
    scores = read(frozen(SMOKE)[0], example, ("attention",))
    asks = keep_sets_of(example, 3, scores)
    everything = frozenset(range(16))
    assert asks[CURRENT] == everything - example.evidence
    (other,) = everything - asks["hidden", "random"]
    assert other not in example.evidence
    assert asks["alone",] == example.evidence
    assert 0 not in asks["routed", "attention", "barred"]
    assert {len(asks["routed", "attention", bar]) for bar in ("kept", "barred")} == {2}


def test_obsolete_over_current_looks_at_every_obsolete_record() -> None:
    (example,) = examples.draw(SMOKE, "conflicting", 16, range(1))
    (current,) = example.evidence
    scores = torch.zeros(16)
    scores[current] = 1
    assert not prefers_obsolete(example, scores)
    for stale in example.obsolete:
        assert prefers_obsolete(example, scores.index_fill(0, torch.tensor([stale]), 2.0))
    assert not prefers_obsolete(example, torch.zeros(16)), "a tie is no preference"


def test_every_reading_scores_every_record() -> None:
    (example,) = examples.draw(SMOKE, "unique", 16, range(1))
    found = read(frozen(SMOKE)[0], example, list(READINGS))
    assert {row.shape for row in found.values()} == {(16,)}
    assert all((row >= 0).all() for row in found.values())
    assert found[ACCUMULATED].sum() > found["window"].sum(), "every row pays more than the question's rows"
    assert not torch.equal(chance(16, 0), chance(16, 1))


def test_judging_asks_unsolved_examples_what_it_is_told_to() -> None:
    drawn = examples.draw(SMOKE, "unique", 8, range(4))
    seen: list[tuple[int, bool]] = []

    def asked(i: int, solved: bool) -> dict[str, frozenset[int]]:
        seen.append((i, solved))
        return {"alone": drawn[i].evidence} if i % 2 else {}

    judged = judge(choosing(SMOKE, drawn), asked)
    assert seen == list(enumerate(judged.dense))
    assert [set(row) for row in judged.kept] == [set(), {"alone"}] * 2
    metric = judged.share("sufficient", "alone")
    assert metric is not None
    assert metric.n == 2
    assert metric.each is not None
    assert metric.each[0] == metric.each[2] == "."
    assert judged.share("sufficient", "nothing") is None


def test_parts_are_pooled(smoke: Results) -> None:
    metric = pooled_share(smoke.of("pretrained"), "dense", task="unique")
    assert metric is not None
    assert metric.n == SMOKE.probed == 3
    assert pooled_share(smoke, "dense", task="nothing") is None
    assert list(parts(5, 2)) == [(0, range(0, 2)), (1, range(2, 4)), (2, range(4, 5))]


def test_words_alone_name_the_record_that_is_asked_for() -> None:
    tokenizer = frozen(SMOKE)[1]
    drawn = examples.draw(SMOKE, "unique", 16, range(6))
    for example, row in zip(drawn, shared_words(tokenizer, drawn), strict=True):
        assert best(row, 1) == example.evidence
    updated = examples.draw(SMOKE, "conflicting", 16, range(6))
    for example, row in zip(updated, shared_words(tokenizer, updated), strict=True):
        writes = example.evidence | example.obsolete
        assert best(row, 3) == writes
        assert best(row, 2) >= example.evidence, "a write that says 'now' shares one word more than the first"


def arm_result(arm: str, each: str, **at: str | int) -> RunResult:
    """What one arm got right, example by example, in part 0 of the routed experiment."""
    outcomes = [{"1": True, "0": False}[mark] for mark in each]
    metric = share_of("routed", outcomes, arm=arm, k=2)
    dense = share_of("dense", [True] * len(each))
    assert metric is not None
    assert dense is not None
    return run_result(
        routing.NAME,
        "small",
        0.0,
        at={"model": "tiny", "task": "unique", "records": 16, "part": 0} | at,
        config={},
        seeds={},
        counts={},
        metrics=[metric, dense],
    )


def test_a_gap_is_paired_over_the_parts_that_have_both() -> None:
    ours, theirs = "1" * 30, "1" * 10 + "0" * 20
    runs = {"causal": arm_result("causal", ours), "imitation": arm_result("imitation", theirs)}
    both = runs["causal"].model_copy(update={"metrics": (*runs["causal"].metrics, runs["imitation"].metrics[0])})
    there = Results({"part-0": both, "part-1": arm_result("causal", "0" * 30, part=1)})
    gap = paired_gap(there, "routed", {"arm": "causal"}, {"arm": "imitation"})
    assert gap is not None
    assert (gap.n, round(gap.value, 3)) == (30, 0.667)
    assert gap.low is not None
    assert gap.low > 0.4
    assert paired_gap(there, "routed", {"arm": "causal"}, {"arm": "nobody"}) is None
    (claim,) = [claim for claim in routing_claims(there) if "ahead of imitation" in claim.claim]
    assert claim.verdict == HOLDS
    behind = Results({"part-0": both.model_copy(update={"metrics": swapped(both.metrics)})})
    (claim,) = [claim for claim in routing_claims(behind) if "ahead of imitation" in claim.claim]
    assert claim.verdict == FAILS


def swapped(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """The outcomes of the two arms changed for each other."""
    other = {"causal": "imitation", "imitation": "causal"}
    return tuple(
        metric.model_copy(update={"at": metric.at | {"arm": other[str(metric.at["arm"])]}}) if metric.at else metric
        for metric in metrics
    )


@pytest.mark.parametrize(("each", "verdict"), [("1" * 40, HOLDS), ("10" * 20, FAILS), ("1" * 10, OPEN)])
def test_a_repair_is_claimed_of_models_that_need_one(each: str, verdict: str) -> None:
    result = arm_result("causal", each, task="conflicting")
    unsolved = share_of("dense", [i % 2 == 0 for i in range(len(each))])
    assert unsolved is not None
    needs_one = result.model_copy(update={"metrics": (result.metrics[0], unsolved)})
    assert [claim.verdict for claim in repair(Results({"part-0": needs_one}), "tiny")] == [verdict]
    assert not repair(Results({"part-0": result}), "tiny"), "it solves the task with everything in sight"


def test_the_papers_rows_follow_a_rule() -> None:
    assert paper_rows("A | 1 |\nB | - | 2") == [(), ("paper: A", "1", ""), ("paper: B", "-", "2")]


def test_substitutes_stand_nowhere_else(squad_data: Path) -> None:
    for example in counterfactuals(SMOKE, squad_data, DEV, 6):
        tokenizer = loaded("tiny")[1]
        answer = tokenizer.decode(example.answer).strip()
        candidates = [tokenizer.decode(candidate).strip() for candidate in example.candidates]
        assert len(set(candidates)) == 4
        assert len({kind(candidate) for candidate in candidates}) == 1
        (gold,) = example.evidence
        assert [i for i, said in enumerate(example.block_texts) if answer in said] == [gold]
        others = [candidate for candidate in candidates if candidate != answer]
        assert not any(other in said for other in others for said in example.block_texts), "the true answer is gone"


def test_kinds_of_answers() -> None:
    assert [kind(a) for a in ("1944", "3,000", "Anna Holm", "the old pier")] == ["year", "number", "name", "words"]
    assert substitutes(random.Random(0), "Ann", "Bob was here", ["Bob", "Ann", "Anna", "Carl"]) == ["Carl"]


def test_a_model_that_is_not_here_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepset.paper.pretrained.settings.fetched", lambda name: None)
    with pytest.raises(ValueError, match="get it with: keepset models fetch gemma-3-270m"):
        frozen(Setting("gemma-3-270m"))


def test_data_and_several_workers_do_not_go_together(squad_data: Path) -> None:
    command = ["reproduce", "counterfactual_squad", "--data", str(squad_data), "--workers", "2"]
    run = CliRunner().invoke(app, command)
    assert isinstance(run.exception, ValueError)
    assert "data: expected one worker" in str(run.exception)

"""The quickstart's job on fresh documents: what is counted, how parts become one number, who is ahead of whom."""

import pytest

from keepset.paper.bench.models import tiny_model
from keepset.paper.fact_sheets import EXPERIMENT
from keepset.paper.fact_sheets.run import BUDGETS, FACTS, MODES, NEVER, Arm, fresh_sheets, judge, marked
from keepset.paper.fact_sheets.tables import CAUSAL, KVPRESS, Pool, ahead, fact_sheet_claims, fact_sheet_table
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results
from keepset.policies import Oracle, Recency
from keepset.pruning import Pruner
from keepset.quickstart import Fact, FactSheet, QuickstartSize, sample_sheets
from keepset.seeds import EVALUATION

TEXT = "\n".join(f"The code for NARO{i} is {1000 + 37 * i}." for i in range(20))


def test_every_arm_is_judged_on_the_answers_the_model_gives_from_everything() -> None:
    model, tokenizer = tiny_model()
    question = "What is the code for NARO2?"
    said = Pruner(model, tokenizer, Recency(), blocks="line").prune(TEXT, 1.0).ask(question, 2)
    facts = tuple(Fact(question, answer, 2) for answer in (said or "x", "nothing", "1074", "1111"))
    whole = Pruner(model, tokenizer, Recency(), blocks="line").prune(TEXT, 1.0)
    dense = [whole.gives(fact.question, fact.answer) for fact in facts]
    recency = Arm(Pruner(model, tokenizer, Recency(), blocks="line", keep_first=False))
    found = judge(model, tokenizer, [FactSheet(TEXT, facts)], [recency])
    assert len(found) == (1 + 1 + len(MODES)) * len(BUDGETS)
    for (at, budget), tally in found:
        assert [mark == NEVER for mark in tally.marks] == [not given for given in dense]
        (kept,) = tally.tokens
        assert 0 < kept <= budget + 1 / 20 + 0.02  # one line more by rounding up, and lines differ by a token
        if at["policy"] == Oracle.title:
            assert tally.kept == sum(dense)


def test_judged_documents_are_not_the_quickstarts() -> None:
    _, tokenizer = tiny_model()
    size = QuickstartSize()
    shown = {s.text for s in sample_sheets(tokenizer, EVALUATION, size.held_out_tokens, size.held_out)}
    first, second = fresh_sheets(tokenizer, 0), fresh_sheets(tokenizer, 1)
    texts = [sheet.text for sheet in (*first, *second)]
    assert len(set(texts)) == len(texts) == 10
    assert not shown & set(texts)
    assert all(len(sheet.facts) == FACTS for sheet in first)


@pytest.mark.parametrize(("now", "dense", "mark"), [(True, True, "1"), (False, True, "0"), (True, False, ".")])
def test_marks(now: bool, dense: bool, mark: str) -> None:
    assert marked(now, dense) == mark


def part(experiment: str, number: int, marks: dict[tuple[str, int, float], str], **more: str) -> RunResult:
    metrics = []
    for (policy, start, budget), each in marks.items():
        given = len(each) - each.count(NEVER)
        at = {"policy": policy, "mode": "global", "router_seed": start, "budget": budget}
        metrics.append(Metric(what="preserved", at=at, value=each.count("1") / given, n=given, each=each))
        metrics += [Metric(what=w, at=at, value=1.0, n=1) for w in ("facts_kept", "tokens_kept", "prefills")]
    return RunResult(
        experiment=experiment,
        scale="small",
        at={"model": "m", "part": number},
        command="",
        config={"tokens": 1024},
        seeds={},
        commit="",
        versions={},
        counts={"training_documents": 8},
        seconds=0,
        metrics=tuple(metrics),
    )


def made_up(documents: int) -> Results:
    """Two starts of a router that keeps all, a rival that keeps half; ``kvpress`` keeps all but one in four."""
    runs = {}
    for number in range(documents):
        marks = {
            (policy, start, budget): each
            for budget in BUDGETS
            for policy, start, each in (
                (CAUSAL, 0, "111."),
                (CAUSAL, 1, "111."),
                ("SnapKV", 0, "100."),
                (Oracle.title, 0, "111."),
            )
        }
        runs[f"own-{number}"] = part("fact_sheets", number, marks)
        runs[f"kvpress-{number}"] = part("kvpress", number, {("kvzip", 0, budget): "110." for budget in BUDGETS})
    return Results(runs)


def test_parts_and_starts_are_pooled_document_by_document() -> None:
    results = made_up(30)
    pool = Pool(results.of("fact_sheets"), policy=CAUSAL, mode="global", budget=0.1)
    assert pool.documents == ["111.111."] * 30
    assert (pool.share().value, pool.share().n) == (1.0, 180)
    rival = Pool(results.of("fact_sheets"), policy="SnapKV", mode="global", budget=0.1)
    assert ahead(pool, rival).value == pytest.approx(2 / 3)
    assert ahead(rival, pool).value == pytest.approx(-2 / 3)


def test_the_table_has_kvpress_beside_the_policies() -> None:
    table = fact_sheet_table(made_up(30))
    assert [row[0] for row in table.rows] == [CAUSAL, "SnapKV", Oracle.title, KVPRESS]
    assert "90 answers about 30 of 30 documents" in table.notes[0]


def test_without_kvpress_its_row_is_missing_and_nothing_else() -> None:
    own = made_up(30).of("fact_sheets")
    assert [row[0] for row in fact_sheet_table(own).rows] == [CAUSAL, "SnapKV", Oracle.title]
    assert len(fact_sheet_claims(own)) == 1 + 2


@pytest.mark.parametrize(("documents", "verdict"), [(30, "holds"), (10, "cannot be told")])
def test_few_documents_tell_nothing(documents: int, verdict: str) -> None:
    claims = fact_sheet_claims(made_up(documents))
    assert len(claims) == 1 + 2 * 2
    assert {claim.verdict for claim in claims[1:]} == {verdict}
    assert claims[0].verdict == "cannot be told"  # 30 of 30 documents may still be 0.89


def test_there_is_nothing_to_run_on_an_untrained_model() -> None:
    assert EXPERIMENT.jobs("smoke") == {}
    assert len(EXPERIMENT.jobs("small")) == 6

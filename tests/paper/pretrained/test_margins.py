"""How far ahead an answer is, and which hidden records change that."""

import pytest

from keepset.interventions import ForcedChoice, Probe, Score
from keepset.paper.claim import FAILS, Claim
from keepset.paper.experiment import run_result
from keepset.paper.pretrained.examples import draw
from keepset.paper.pretrained.judge import candidates, choosing
from keepset.paper.pretrained.margins import NAME, Ahead, margins_table, of_example, why_random_records_flip
from keepset.paper.pretrained.settings import SETTINGS
from keepset.paper.report import contradictions
from keepset.paper.results import Results

(SMOKE,) = SETTINGS["smoke"]
OBSOLETE = frozenset({0, 1})


def results_of(margins: dict[int, float], moves: dict[int, list[float]]) -> Results:
    """Examples with these margins, after each hidden record."""
    metrics = [
        metric
        for number, margin in margins.items()
        for metric in of_example(
            number, margin, {i: Score(after, after > 0) for i, after in enumerate(moves[number])}, OBSOLETE
        )
    ]
    run = run_result(NAME, "smoke", 0.0, at={"model": "tiny"}, config={}, seeds={}, counts={}, metrics=metrics)
    return Results({"record_margins/tiny/conflicting-0": run})


def test_ahead_is_right_where_the_forced_choice_is() -> None:
    examples = draw(SMOKE, "conflicting", 8, range(6))
    chosen, ahead = choosing(SMOKE, examples), Probe(examples, choosing(SMOKE, examples).executor, Ahead(candidates))
    assert isinstance(chosen.scorer, ForcedChoice)
    asks = [(i, chosen.blocks(i)) for i in range(6)]
    right = [score.correct for score in chosen.score(asks)]
    margins = ahead.score(asks)
    assert [score.correct for score in margins] == right
    assert [score.log_prob > 0 for score in margins] == right


def test_flips_are_counted_by_kind_of_record() -> None:
    metrics = of_example(7, 0.3, {0: Score(-0.1, False), 1: Score(0.5, True), 2: Score(-0.2, False)}, OBSOLETE)
    found = {(metric.what, metric.at.get("of")): metric for metric in metrics}
    assert found["flips", "obsolete"].value == pytest.approx(1 / 2)
    assert found["flips", "other"].value == 1
    assert found["moved", None].value == pytest.approx((0.4 + 0.2 + 0.5) / 3)
    assert {metric.at["example"] for metric in metrics} == {7}


def test_narrow_and_wide_choices_stand_apart() -> None:
    results = results_of({0: 0.2, 1: 2.0}, {0: [-0.1, -0.2, -0.3, 0.1], 1: [1.7, 1.8, 2.2, 2.3]})
    (table,) = margins_table(results)
    solved = {row[1]: (row[2], row[4][:4]) for row in table.rows if row}
    assert solved == {
        "0 to 0.5": ("1", "0.75"),
        "0.5 to 1": ("0", "-"),
        "more than 1": ("1", "0.00"),
        "any": ("2", "0.38"),
    }
    said = why_random_records_flip(results, "tiny")
    assert said.index("0.75") < said.index("0.00")
    assert why_random_records_flip(results, "another") == "not tested"


def test_a_missed_bar_of_ours_contradicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        Claim("theirs", "1.00", "0.50", "30 units", FAILS),
        Claim("ours", "0.29", "0.17", "60 units", FAILS, "narrow choices flip", bar_is_ours=True),
    ]
    monkeypatch.setattr("keepset.paper.report.claims", lambda results: [(None, claim) for claim in told])
    lines = contradictions(Results({}))
    theirs, ours = lines.index("## What contradicts the paper"), lines.index("## Bars of ours that are missed")
    assert theirs < next(i for i, line in enumerate(lines) if line.startswith("| theirs")) < ours
    assert ours < next(i for i, line in enumerate(lines) if line.startswith("| ours"))

"""All results as one data frame: coordinates, selections, and what is said when nothing is found."""

from pathlib import Path

import pandas as pd
import pytest

import keepset.paper
from keepset.paper.result import Metric, RunResult, save_result
from keepset.paper.results import NUMBERS, Results, read_results
from keepset.paper.statistics import share


def run(experiment: str, metrics: list[Metric], **at: int | str) -> RunResult:
    return RunResult(
        experiment=experiment,
        scale="small",
        at=at,
        command="keepset x",
        config={"seed": at.get("teacher", 0)},
        seeds={},
        commit="0" * 40,
        versions={},
        counts={"examples": 10},
        seconds=1.0,
        metrics=tuple(metrics),
    )


CAUSAL = [share("routed", right, 10, condition="unique", router_seed=seed) for seed, right in enumerate((9, 8))]
RUNS = {
    "chains/0-causal": run("chains", CAUSAL, teacher=0, arm="causal"),
    "chains/1-causal": run("chains", [share("routed", 7, 10, condition="unique")], teacher=1, arm="causal"),
    "recovery/0": run("recovery", [share("match", 5, 10, floor=0.25), share("match", 4, 10, floor=4.0)], teacher=0),
    "router": run("router", [Metric(what="seconds", value=0.5, n=3, each="1.0")]),
}


@pytest.fixture
def results() -> Results:
    return Results(RUNS)


def test_a_row_has_the_coordinates_of_its_run_and_its_own(results: Results) -> None:
    assert list(results.frame.columns) == [
        *("experiment", "file", "what", *NUMBERS),
        *("teacher", "arm", "condition", "router_seed", "floor"),
    ]
    second = results.frame.iloc[1]
    assert (second.experiment, second.file, second.what) == ("chains", "chains/0-causal", "routed")
    assert (second.teacher, second.arm, second.condition, second.router_seed) == (0, "causal", "unique", 1)
    assert (second.value, second.n, second.low, second.high) == (0.8, 10, CAUSAL[1].low, CAUSAL[1].high)


def test_integer_coordinates_stay_integers_and_missing_ones_are_empty(results: Results) -> None:
    """Beside numbers without a teacher, pandas would make teacher 0 to 0.0."""
    teachers = list(results.frame["teacher"])
    assert [type(teacher) for teacher in teachers[:-1]] == [int] * 5
    assert teachers == [0, 0, 1, 0, 0, None]
    assert list(results.frame["floor"]) == [None, None, None, 0.25, 4.0, None]
    assert results.frame["router_seed"].notna().tolist() == [True, True, False, False, False, False]
    assert list(results.frame["each"].dropna()) == ["1.0"]


def test_numbers_can_be_reckoned_with(results: Results) -> None:
    assert results.frame["value"].dtype == float
    assert results.frame["n"].dtype == int
    by_teacher = results.frame[results.frame.what == "routed"].groupby("teacher").value.mean()
    assert by_teacher.to_dict() == pytest.approx({0: 0.85, 1: 0.7})


def test_a_selection_is_by_what_and_coordinates(results: Results) -> None:
    assert results.values("routed") == [0.9, 0.8, 0.7]
    assert results.values("routed", teacher=0) == [0.9, 0.8]
    assert results.value("match", floor=4.0) == 0.4
    assert results.select("routed", teacher=2).empty
    assert results.select("routed", colour="red").empty, "a coordinate nothing has"
    assert results.coordinates("teacher") == [0, 1]
    assert results.coordinates("condition", what="match") == []
    assert results.coordinates("colour") == []


def test_nothing_found_says_what_there_is(results: Results) -> None:
    message = "no number 'routd' at teacher 0; there are routed, match, seconds"
    with pytest.raises(KeyError, match=message):
        results.values("routd", teacher=0)
    with pytest.raises(KeyError, match="no number 'routed' at any coordinates; there are none"):
        Results({}).values("routed")


def test_one_number_is_one_number(results: Results) -> None:
    found = results.metric("routed", teacher=0, router_seed=0)
    assert (found.value, found.n, found.low, found.high) == (0.9, 10, CAUSAL[0].low, CAUSAL[0].high)
    assert results.metric("seconds").low is None
    with pytest.raises(KeyError, match="'routed' at teacher 0: expected one number, got 2"):
        results.metric("routed", teacher=0)
    with pytest.raises(KeyError, match="'routed' at teacher 5: expected one number, got 0"):
        results.value("routed", teacher=5)


def test_of_restricts_to_experiments(results: Results) -> None:
    assert list(results.of("chains").runs) == ["chains/0-causal", "chains/1-causal"]
    assert set(results.of("router", "recovery").frame["experiment"]) == {"recovery", "router"}
    assert "floor" not in results.of("chains").frame.columns
    assert not results.of("eviction")
    assert results.of("chains")


def test_where_restricts_to_runs(results: Results) -> None:
    assert list(results.where(teacher=0).runs) == ["chains/0-causal", "recovery/0"]
    assert list(results.where(teacher=0, arm="causal").runs) == ["chains/0-causal"]
    assert not results.where(arm="imitation")


def test_a_run_is_found_by_its_coordinates(results: Results) -> None:
    assert results.run(teacher=1).config == {"seed": 1}
    assert results.of("recovery").run().at == {"teacher": 0}
    with pytest.raises(KeyError, match="no run with teacher 7 among 4"):
        results.run(teacher=7)


def test_everything_tracked_is_one_data_frame(tmp_path: Path) -> None:
    for name, found in RUNS.items():
        save_result(found, tmp_path / "small" / f"{name}.json")
    frame = keepset.paper.results(tmp_path)  # the function, though a module of that name is imported above
    assert isinstance(frame, pd.DataFrame)
    pd.testing.assert_frame_equal(frame, Results(RUNS).frame)
    assert read_results(tmp_path, "small").runs == RUNS
    with pytest.raises(ValueError, match=r"results folder: expected .*paper to exist; run from the repository"):
        keepset.paper.results(tmp_path, scale="paper")
    (tmp_path / "paper").mkdir()
    with pytest.raises(ValueError, match=r"results folder: expected result files in .*paper, got none; 'keepset repr"):
        keepset.paper.results(tmp_path, scale="paper")

"""Results: read back as written, and refused plainly when they are not results."""

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from keepset.paper import experiment
from keepset.paper.result import SCHEMA_VERSION, Metric, RunResult, load_result, save_result

RESULT = RunResult(
    experiment="teachers",
    scale="smoke",
    at={"teacher": 0, "mixture": "five-task"},
    command="keepset teacher evaluate DIR",
    config={"seed": 0, "stages": [{"until": 3}], "lr": 0.1},
    seeds={"evaluation": 3_000_000_000},
    commit="unknown",
    versions={"python": "3.11.0"},
    counts={"examples": 100},
    seconds=1.5,
    metrics=(
        Metric(what="dense", at={"condition": "unique", "floor": 1.0, "solved": True}, value=1 / 3, n=3, each="1.0"),
        Metric(what="dense", at={"condition": "multihop", "k": 1}, value=0.5, n=100, low=0.4, high=0.6),
        Metric(what="loss", value=0.1, n=100),
    ),
)


def write(path: Path, **changes: object) -> Path:
    """The JSON of a valid result with some fields changed; None removes the field."""
    data = {**RESULT.model_dump(mode="json"), **changes}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}), encoding="utf-8")
    return path


def test_a_result_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "run.json"
    save_result(RESULT, path)
    assert load_result(path) == RESULT
    assert [found.name for found in path.parent.iterdir()] == ["run.json"]


def test_the_time_of_a_run_includes_what_is_measured_last(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def now() -> float:
        read.append("clock")
        return 7.0

    def metrics() -> Iterator[Metric]:
        read.append("metric")
        yield RESULT.metrics[-1]

    monkeypatch.setattr(time, "monotonic", now)
    found = experiment.run_result("x", "smoke", 2.0, at={}, config={}, seeds={}, counts={}, metrics=metrics())
    assert (found.seconds, read) == (5.0, ["metric", "clock"])


def test_coordinates_keep_their_types(tmp_path: Path) -> None:
    save_result(RESULT, tmp_path / "run.json")
    first, second, _ = load_result(tmp_path / "run.json").metrics
    assert [type(value) for value in first.at.values()] == [str, float, bool]
    assert type(second.at["k"]) is int


def test_a_metric_is_one_line(tmp_path: Path) -> None:
    """So that a change of one number is a change of one line."""
    path = tmp_path / "run.json"
    save_result(RESULT, path)
    lines = path.read_text(encoding="utf-8").splitlines()
    loss = '{"what": "loss", "value": 0.1, "n": 100}'
    assert lines[-3:] == [f"  {loss}", " ]", "}"], "and says nothing of what it has not"
    changed = RESULT.metrics[1].model_copy(update={"value": 0.7})
    save_result(RESULT.model_copy(update={"metrics": (RESULT.metrics[0], changed, RESULT.metrics[2])}), path)
    pairs = zip(lines, path.read_text(encoding="utf-8").splitlines(), strict=True)
    assert [(old, new) for old, new in pairs if old != new] == [
        (lines[-4], lines[-4].replace('"value": 0.5', '"value": 0.7'))
    ]


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RESULT.scale = "paper"  # type: ignore[misc]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", schema_version=SCHEMA_VERSION + 1, something_new=1)
    message = f"run.json: expected results schema {SCHEMA_VERSION}, got {SCHEMA_VERSION + 1}; .*upgrade"
    with pytest.raises(ValueError, match=message):
        load_result(path)


def test_an_older_schema_is_refused(tmp_path: Path) -> None:
    named = [{"name": "unique", "value": 1.0, "n": 1, "low": None, "high": None}]
    path = write(tmp_path / "run.json", schema_version=1, metrics=named)
    message = (
        "run.json: expected results schema 2, got 1, whose numbers have names instead of coordinates; run the command"
    )
    with pytest.raises(ValueError, match=message):
        load_result(path)


@pytest.mark.parametrize("content", [b'{"schema_version": 1, "exper', b"", b"\x80\x02 not text"])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run.json: expected a results file \(JSON\), got something else"):
        load_result(path)


@pytest.mark.parametrize("content", ["[1]", '"text"', "{}", '{"schema_version": "1"}'])
def test_json_without_a_schema_version_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"run.json: expected a results file with a 'schema_version', got none"):
        load_result(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "colour\n.*Extra inputs are not permitted"),
        ({"metrics": [{"what": "unique", "value": 1, "n": 1, "std": 0}]}, r"metrics.0.std\n.*Extra inputs"),
        ({"metrics": [{"what": "unique", "value": 1}]}, r"metrics.0.n\n.*Field required"),
        ({"metrics": [{"what": "x", "value": 1, "n": 1, "at": {"k": None}}]}, r"metrics.0.at.k(.*\n)*.*valid integer"),
        ({"commit": None}, "commit\n.*Field required"),
        ({"counts": {"examples": "many"}}, r"counts.examples\n.*valid integer"),
    ],
)
def test_unknown_missing_and_wrong_fields_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = write(tmp_path / "run.json", **changes)
    with pytest.raises(ValueError, match=rf"run.json: not a valid results file: (.*\n)*{message}"):
        load_result(path)


def test_a_full_disk_leaves_the_earlier_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    save_result(RESULT, path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_result(RESULT.model_copy(update={"scale": "paper"}), path)
    assert load_result(path) == RESULT
    assert [found.name for found in tmp_path.iterdir()] == ["run.json"]

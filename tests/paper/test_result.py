"""Results: read back as written, and refused plainly when they are not results."""

import errno
import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from keepset.paper.result import SCHEMA_VERSION, Metric, RunResult, load_result, load_results, save_result

RESULT = RunResult(
    experiment="teachers",
    scale="smoke",
    command="keepset teacher evaluate DIR",
    config={"seed": 0, "stages": [{"until": 3}], "lr": 0.1},
    seeds={"evaluation": 3_000_000_000},
    commit="unknown",
    versions={"python": "3.11.0"},
    counts={"examples": 100},
    seconds=1.5,
    metrics=(Metric(name="unique", value=1 / 3, n=100, low=0.25, high=0.43), Metric(name="loss", value=0.1, n=100)),
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


def test_results_of_one_experiment_come_in_file_order(tmp_path: Path) -> None:
    for name, experiment in (("b", "teachers"), ("a", "teachers"), ("c", "other")):
        write(tmp_path / f"{name}.json", experiment=experiment, command=name)
    assert [result.command for result in load_results(tmp_path, "teachers")] == ["a", "b"]


def test_a_metric_is_found_by_name() -> None:
    assert RESULT.metric("unique").n == 100
    with pytest.raises(KeyError, match="teachers: no metric 'uniqe'; it has unique, loss"):
        RESULT.metric("uniqe")


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RESULT.scale = "paper"  # type: ignore[misc]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", schema_version=SCHEMA_VERSION + 1, something_new=1)
    message = f"run.json: expected results schema {SCHEMA_VERSION} or older, got {SCHEMA_VERSION + 1}; .*upgrade"
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
        ({"metrics": [{"name": "unique", "value": 1, "n": 1, "std": 0}]}, r"metrics.0.std\n.*Extra inputs"),
        ({"metrics": [{"name": "unique", "value": 1}]}, r"metrics.0.n\n.*Field required"),
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

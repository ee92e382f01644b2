"""What a rerun says of its time before it begins."""

from pathlib import Path

import pytest

from keepset.paper.durations import TRACKED, Durations, durations_file, read_durations, said_beforehand
from keepset.paper.results import Results

KNOWN = Durations(
    scale="small",
    runs={
        "chains/a": 600,
        "chains/b": 6_700,
        "evidence/a-0": 100,
        "evidence/a-1": 240,
        "evidence/a-2": 9_000,
        "eviction/a-1024-part0/h2o": 300,
        "engine/records-16": 60,
    },
    teachers={"five-task-0": 100},
)


@pytest.mark.parametrize(
    ("runs", "teachers", "said"),
    [
        (["chains/a"], [], "1 run is missing: about 10 minutes of one core, as long as the tracked ones took"),
        (["chains/a", "chains/b"], ["five-task-0"], "2 runs are missing, and 1 teacher: about 2 hours of one core"),
        (["chains/a", "chains/new"], [], "as long as the tracked ones took; of 1 nothing here says how long"),
        (["chains/new"], [], "1 run is missing; nothing here says how long that takes"),
        ([], ["five-task-3", "hardened-0"], "2 teachers: about 100 seconds of one core"),
        (["evidence/a-7"], [], "1 run is missing: about 4 minutes of one core"),
        (["eviction/a-1024-part3/h2o"], [], "1 run is missing: about 5 minutes of one core"),
        (["eviction/a-2048-part0/h2o", "engine/records-128"], [], "2 runs are missing; nothing here says how long"),
    ],
)
def test_what_is_missing_is_added_up_and_what_was_never_timed_is_said(
    runs: list[str], teachers: list[str], said: str
) -> None:
    assert said in said_beforehand(KNOWN, runs, teachers)


def test_the_durations_of_another_scale_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_durations("small").runs == {}
    TRACKED.parent.mkdir(parents=True)
    TRACKED.write_text(KNOWN.model_dump_json())
    assert read_durations("small") == KNOWN
    assert read_durations("paper").runs == {}


def test_every_tracked_run_and_teacher_has_a_duration(tracked: Results) -> None:
    found = Durations.model_validate_json(durations_file(tracked))
    assert set(found.runs) == set(tracked.runs)
    assert len(found.teachers) == len(tracked.of("teachers").runs)
    assert min(found.teachers.values()) > 60

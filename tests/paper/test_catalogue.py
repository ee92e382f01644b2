"""Every experiment is found by itself, once, and in order."""

import re
from pathlib import Path

import pytest

import keepset.paper
from keepset.paper.catalogue import experiments, find_experiments, labels
from keepset.paper.report import SECTIONS

PAPER = Path(keepset.paper.__file__).parent


def test_every_file_with_an_experiment_is_found_once() -> None:
    declaring = [path for path in PAPER.rglob("*.py") if re.search(r"^EXPERIMENT\b.*=", path.read_text("utf-8"), re.M)]
    declared = [name for path in declaring for name in re.findall(r"^EXPERIMENT\b.*=", path.read_text("utf-8"), re.M)]
    assert len(experiments()) == len(declared) >= 20
    assert {"agreement", "temperature", "redundant"} <= set(experiments())


def test_experiments_come_in_the_order_of_the_paper() -> None:
    every = experiments()
    assert [experiment.name for experiment in every.values()] == list(every)
    places = [experiment.place for experiment in every.values()]
    assert places == sorted(set(places)), "each has a place of its own"


def test_what_is_needed_exists() -> None:
    """Else a table would be left out in silence."""
    for experiment in experiments().values():
        needed = {name for item in (*experiment.reports, *experiment.differences) for name in item.needs}
        assert needed <= set(experiments()) - {experiment.name}, experiment.name


def test_every_report_stands_in_a_section() -> None:
    for experiment in experiments().values():
        assert {report.section for report in experiment.reports} <= set(SECTIONS), experiment.name


def test_a_job_writes_below_its_experiment() -> None:
    for experiment in experiments().values():
        if not experiment.bench:
            assert {name.split("/")[0] for name in experiment.jobs("small")} == {experiment.name}


def test_an_experiment_is_found_by_its_name_and_by_a_table() -> None:
    assert list(find_experiments(["redundant", "agreement"])) == ["agreement", "redundant"]
    assert "temperature" in find_experiments(["tab:temperature"])
    assert "tab:app-agreement" in labels(experiments()["agreement"])
    everything = find_experiments([])
    assert everything
    assert not any(experiment.bench for experiment in everything.values())


def test_an_unknown_name_is_refused_with_the_list() -> None:
    names = "expected one of .*agreement.*recovery.*, or a result of the paper: .*fig:redundancy.*tab:agreement"
    with pytest.raises(ValueError, match=f"unknown experiment 'tab:agrement'; {names}"):
        find_experiments(["tab:agrement"])


def test_an_experiment_names_the_teachers_that_its_files_read() -> None:
    """Else its runs would ask for weights that nobody has trained."""
    reading = re.compile(r"\b(load_teacher|Labelled\.load|teacher_seeds)\(")
    for name, experiment in experiments().items():
        place = PAPER / name
        files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
        reads = any(reading.search(file.read_text("utf-8")) for file in files if file.exists())
        if reads and not experiment.bench:
            assert experiment.teachers("small"), name
            assert set(experiment.teachers("small")) <= set(experiments()["teachers"].teachers("small")), name

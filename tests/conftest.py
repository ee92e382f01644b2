"""One thread, no network, and no deadline for Hypothesis: the tests must hold on a busy machine.

Nothing here imports torch before a test wants it: the process that only hands out tests to others would wait for it.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from keepset.paper.results import Results

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported
os.environ["HF_HUB_OFFLINE"] = "1"  # and this by transformers

settings.register_profile(
    "keepset", max_examples=30, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keepset")


@pytest.hookimpl(optionalhook=True)  # kvpress's environment has no xdist
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: the tests of the page, of pools and of commands often wait for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def untrained_teachers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two untrained smoke teachers per mixture, for reading alone."""
    from keepset.paper.teachers import SEEDS, teacher_folder, teacher_seeds
    from keepset.paper.testbed.teachers.presets import smoke
    from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher

    folder = tmp_path_factory.mktemp("untrained")
    for mixture in SEEDS:
        for seed in teacher_seeds("smoke", mixture):
            config = smoke(mixture, seed)
            save_teacher(build_teacher(config), config, folder / teacher_folder("smoke", mixture, seed))
    return folder


@pytest.fixture(scope="session")
def tracked() -> "Results":
    """Every tracked result, read once; what is looked up in it once is found at once again."""
    from keepset.paper.results import read_results

    return read_results(Path(__file__).parents[1] / "results", "small")


@pytest.fixture
def untrained(untrained_teachers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own with those teachers."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(untrained_teachers, tmp_path, dirs_exist_ok=True)
    return tmp_path

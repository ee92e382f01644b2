"""One thread, no network, and no deadline for Hypothesis: the tests must hold on a busy machine."""

import os
import shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported

import pytest
import torch
from hypothesis import HealthCheck, settings

from keepset.paper.results import Results, read_results
from keepset.paper.teachers import SEEDS, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher

torch.set_num_threads(1)

settings.register_profile(
    "keepset", max_examples=30, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keepset")


@pytest.fixture(scope="session")
def untrained_teachers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two untrained smoke teachers per mixture, for reading alone."""
    folder = tmp_path_factory.mktemp("untrained")
    for mixture in SEEDS:
        for seed in teacher_seeds("smoke", mixture):
            config = smoke(mixture, seed)
            save_teacher(build_teacher(config), config, folder / teacher_folder("smoke", mixture, seed))
    return folder


@pytest.fixture(scope="session")
def tracked() -> Results:
    """Every tracked result, read once; what is looked up in it once is found at once again."""
    return read_results(Path(__file__).parents[1] / "results", "small")


@pytest.fixture
def untrained(untrained_teachers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own with those teachers."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(untrained_teachers, tmp_path, dirs_exist_ok=True)
    return tmp_path

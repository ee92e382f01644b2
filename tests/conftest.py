"""One thread, no network, and no deadline for Hypothesis: the tests must hold on a busy machine."""

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported

import pytest
import torch
from hypothesis import HealthCheck, settings

from keepset.paper.teachers import SEEDS, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher

torch.set_num_threads(1)

settings.register_profile(
    "keepset", max_examples=30, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("keepset")


@pytest.fixture
def untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two untrained smoke teachers per mixture."""
    monkeypatch.chdir(tmp_path)
    for mixture in SEEDS:
        for seed in teacher_seeds("smoke", mixture):
            config = smoke(mixture, seed)
            save_teacher(build_teacher(config), config, tmp_path / teacher_folder("smoke", mixture, seed))
    return tmp_path

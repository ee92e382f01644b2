"""Untrained smoke teachers of every mixture, in a folder of their own."""

from pathlib import Path

import pytest

from keepset.paper.teachers import SEEDS, teacher_folder, teacher_seeds
from keepset.paper.testbed.teachers.presets import smoke
from keepset.paper.testbed.teachers.teacher import build_teacher, save_teacher


@pytest.fixture
def untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two teachers per mixture."""
    monkeypatch.chdir(tmp_path)
    for mixture in SEEDS:
        for seed in teacher_seeds("smoke", mixture):
            config = smoke(mixture, seed)
            save_teacher(build_teacher(config), config, tmp_path / teacher_folder("smoke", mixture, seed))
    return tmp_path

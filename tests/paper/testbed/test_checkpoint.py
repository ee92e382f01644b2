"""Checkpoints: exact, complete or absent, and refused when damaged or somebody else's."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from keepset.paper.testbed.teachers.checkpoint import KEPT, TrainingState, checkpoints, load_checkpoint, save_checkpoint
from keepset.paper.testbed.teachers.muon import Muon

CONFIG: dict[str, Any] = {"seed": 0, "batch": 4, "optimizer": {"lr": 0.001, "betas": [0.9, 0.999]}}


class Run:
    """A two-layer network trained by AdamW and Muon: the smallest thing with both kinds of state."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        matrices = [p for p in self.model.parameters() if p.ndim == 2]
        vectors = [p for p in self.model.parameters() if p.ndim == 1]
        self.optimizers = [torch.optim.AdamW(vectors, lr=1e-2), Muon(matrices, lr=0.02, weight_decay=0.01)]
        self.state = TrainingState(step=0, seconds=0.0, history=[], config=CONFIG)

    def train(self, steps: int) -> "Run":
        for _ in range(steps):
            data = torch.randn(16, 6, generator=torch.Generator().manual_seed(self.state.step))
            loss = (self.model(data)[:, 0] - data.prod(dim=1)).square().mean()
            loss.backward()
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
            self.state.step += 1
            self.state.history.append({"step": self.state.step, "loss": loss.item()})
        return self

    def save(self, folder: Path) -> Path:
        save_checkpoint(folder, self.state, self.model, self.optimizers)
        return checkpoints(folder)[-1]

    def load(self, path: Path, config: dict[str, Any] = CONFIG) -> "Run":
        self.state = load_checkpoint(path, self.model, self.optimizers, config)
        return self


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return Run().train(2).save(tmp_path)


def test_a_resumed_run_ends_in_the_same_bits(tmp_path: Path) -> None:
    whole = Run().train(3)
    path = whole.save(tmp_path)
    whole.train(4)
    resumed = Run(seed=1).load(path).train(4)
    assert resumed.state == whole.state
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(whole.optimizers, resumed.optimizers, strict=True):
        for p, buffers in one.state_dict()["state"].items():
            for name, value in buffers.items():
                assert torch.equal(value, other.state_dict()["state"][p][name])


def test_only_the_last_checkpoints_stay(tmp_path: Path) -> None:
    run = Run()
    for _ in range(4):
        run.train(1).save(tmp_path)
    assert KEPT == 2
    assert [path.name for path in checkpoints(tmp_path)] == ["000003", "000004"]


def test_what_a_killed_run_left_half_written_is_not_a_checkpoint(tmp_path: Path, saved: Path) -> None:
    half = tmp_path / ".000003.abc"
    half.mkdir()
    (half / "model.safetensors").touch()
    (tmp_path / "000004").touch()
    assert checkpoints(tmp_path) == [saved]
    assert checkpoints(tmp_path / "nowhere") == []


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = Run().load(saved).train(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            run.save(tmp_path)
    assert list(tmp_path.iterdir()) == [saved]
    assert Run().load(saved).state.step == 2


def test_tensors_that_do_not_fit_leave_the_checkpoint_before(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    run = Run().load(saved).train(1)
    monkeypatch.setattr("keepset.paper.testbed.teachers.checkpoint.save_file", full)
    with pytest.raises(OSError, match=r"000003 cannot be written, and nothing was kept: .*No space left"):
        run.save(tmp_path)
    assert list(tmp_path.iterdir()) == [saved]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damaged_tensors_are_refused_before_anything_is_loaded(saved: Path, name: str, damage: str) -> None:
    path = saved / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    run = Run(seed=1)
    before = [p.clone() for p in run.model.parameters()]
    got = "no file" if damage == "missing" else "[0-9a-f]{12}"
    message = rf"000002 is damaged: expected {name} with sha256 [0-9a-f]{{12}}, got {got}; delete .*000002 to go on"
    with pytest.raises(ValueError, match=message):
        run.load(saved)
    assert all(torch.equal(p, old) for p, old in zip(run.model.parameters(), before, strict=True))


GOOD = {"step": 2, "seconds": 0.0, "history": [], "config": CONFIG, "sha256": {}}


@pytest.mark.parametrize(
    "content",
    ["", '{"step": 2, "seco', "[]", "5", '"text"', "{}", json.dumps(GOOD), json.dumps({**GOOD, "sha256": "?"})],
)
def test_a_damaged_state_is_refused(saved: Path, content: str) -> None:
    (saved / "state.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"000002 is damaged \(state.json: .*\); delete .* or choose another"):
        Run().load(saved)


def test_a_checkpoint_without_state_is_refused(saved: Path) -> None:
    (saved / "state.json").unlink()
    with pytest.raises(ValueError, match=r"000002 is damaged \(state.json: .*No such file"):
        Run().load(saved)


def test_a_checkpoint_of_another_config_is_refused(saved: Path) -> None:
    other = {**CONFIG, "batch": 8, "bf16": True}
    message = r"belongs to another run \(batch: expected 8, got 4; bf16: expected True, got None\); choose another"
    with pytest.raises(ValueError, match=message):
        Run().load(saved, other)

"""Checkpoints of a training run: safetensors and JSON, complete or absent, never half.

DIR/checkpoints/000400/   model.safetensors  optimizer.safetensors  state.json
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from keepset.files import replacing_folder, sha256, write_json, writing_tensors

KEPT = 2
"""How many checkpoints stay on disk, so that a damaged one leaves an earlier one to go back to."""

TENSOR_FILES = ("model.safetensors", "optimizer.safetensors")


@dataclass
class TrainingState:
    """Everything a run needs to go on exactly where it was. Data order needs no state: every step has its own seed."""

    step: int
    """Steps already taken."""
    seconds: float
    """Training time so far."""
    history: list[dict[str, Any]]
    config: dict[str, Any]


def save_checkpoint(
    folder: Path, state: TrainingState, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]
) -> None:
    """Writes checkpoint ``state.step`` and removes the oldest beyond ``KEPT``."""
    target = folder / f"{state.step:06d}"
    with replacing_folder(target) as temporary:
        with writing_tensors(target):
            save_file({k: v.contiguous() for k, v in model.state_dict().items()}, temporary / TENSOR_FILES[0])
            save_file(_optimizer_tensors(optimizers), temporary / TENSOR_FILES[1])
        hashes = {name: sha256(temporary / name) for name in TENSOR_FILES}
        write_json(temporary / "state.json", {**vars(state), "sha256": hashes})
    for old in checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def load_checkpoint(
    path: Path, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], config: dict[str, Any]
) -> TrainingState:
    """Restores a checkpoint in place; refuses a damaged one and one of another config."""
    advice = f"delete {path} to go on from the checkpoint before it, or choose another output folder"
    try:
        data = json.loads((path / "state.json").read_text(encoding="utf-8"))
        written = data.pop("sha256")
        hashes = {name: str(written[name]) for name in TENSOR_FILES}
        state = TrainingState(**data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"checkpoint {path} is damaged (state.json: {error}); {advice}") from error
    for name, expected in hashes.items():
        found = sha256(path / name) if (path / name).exists() else "no file"
        if found != expected:
            raise ValueError(
                f"checkpoint {path} is damaged: expected {name} with sha256 {expected[:12]}, got {found[:12]}; {advice}"
            )
    different = sorted(key for key in config if state.config.get(key) != config[key])
    if different:
        shown = "; ".join(f"{key}: expected {config[key]}, got {state.config.get(key)}" for key in different)
        raise ValueError(f"checkpoint {path} belongs to another run ({shown}); choose another output folder")
    model.load_state_dict(load_file(path / TENSOR_FILES[0]))
    _restore_optimizers(optimizers, load_file(path / TENSOR_FILES[1]))
    return state


def _optimizer_tensors(optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Optimizer state as named tensors: ``optimizer.parameter.buffer``, parameters counted in order."""
    tensors = {}
    for o, optimizer in enumerate(optimizers):
        for p, buffers in optimizer.state_dict()["state"].items():
            for name, value in buffers.items():
                tensors[f"{o}.{p}.{name}"] = torch.as_tensor(value).contiguous()
    return tensors


def _restore_optimizers(optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    for key, tensor in tensors.items():
        o, p, name = key.split(".", 2)
        states[int(o)].setdefault(int(p), {})[name] = tensor
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

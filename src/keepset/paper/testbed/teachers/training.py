"""Training a teacher: one function, read top to bottom, for every preset and optimizer."""

import json
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from keepset import seeds
from keepset.files import alone_in, write_json
from keepset.models.device import check_device
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.mixture import DRAWS_PER_STEP, sample_mixture
from keepset.paper.testbed.teachers.checkpoint import TrainingState, checkpoints, load_checkpoint, save_checkpoint
from keepset.paper.testbed.teachers.config import Optimizer, TeacherConfig
from keepset.paper.testbed.teachers.muon import Muon
from keepset.paper.testbed.teachers.teacher import accuracy, build_teacher, save_teacher

MONITOR_EXAMPLES = 128
"""Held-out examples per condition and look; a look is for the eye, results use an evaluation of their own."""


def train_teacher(
    config: TeacherConfig, out: Path, device: str = "cpu", checkpoint_every: int = 100, stop_after: int | None = None
) -> PreTrainedModel:
    """Trains (or goes on training) the teacher of ``config`` in ``out`` and returns it.

    Fresh examples every step, each step with its own seed, so a run that is killed and started
    again ends in the same weights. ``stop_after`` ends early, after that many steps in all. Two runs in one folder
    would go on from each other's checkpoints: the second is refused.
    """
    found = check_device(device)
    with alone_in(out, "training a teacher"):
        return _train_alone(config, out, found, checkpoint_every, stop_after)


def _train_alone(
    config: TeacherConfig, out: Path, device: torch.device, checkpoint_every: int, stop_after: int | None
) -> PreTrainedModel:
    model = build_teacher(config)
    model.to(device)  # type: ignore[arg-type]  # transformers' wrapper hides the signature
    optimizers = make_optimizers(config.optimizer, model)
    state = TrainingState(step=0, seconds=0.0, history=[], config=config.model_dump(mode="json"))
    saved = checkpoints(out / "checkpoints")
    if saved:
        state = load_checkpoint(saved[-1], model, optimizers, state.config)
    elif (out / "teacher.json").exists():
        raise ValueError(f"{out} already holds a teacher; choose another output folder, or delete it to train again")
    loss_of = make_loss(model, config)
    last_step = min(config.steps, stop_after or config.steps)

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("training", total=config.steps, completed=state.step)
        started = time.monotonic() - state.seconds
        while state.step < last_step:
            stage = config.stage(state.step)
            batch = sample_mixture(
                stage.mixture,
                seeds.TEACHER_STREAM.seed(config.seed, state.step * DRAWS_PER_STEP),
                config.batch,
                stage.n_blocks,
                config.block_width,
                config.vocabulary,
                config.n_queries,
            )
            rows = torch.tensor(batch.answer_rows, device=device)
            loss = loss_of(batch.tokens.to(device), rows, batch.answers.to(device), batch.asked.to(device))
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"step {state.step}: the loss is {loss.item()}; the last checkpoint stands; lower the learning rate"
                )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.clip)
            scale = learning_rate_scale(config.optimizer, state.step, config.steps)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["peak_lr"] * scale
                optimizer.step()
                optimizer.zero_grad()

            state.step += 1
            state.seconds = time.monotonic() - started
            if state.step % config.monitor_every == 0 or state.step == config.steps:
                look = monitor(model, config)
                state.history.append(
                    {"step": state.step, "seconds": round(state.seconds, 1), "loss": round(loss.item(), 4), **look}
                )
                write_json(out / "metrics.json", state.history)
                shown = " ".join(f"{name} {value:.2f}" for name, value in look.items())
                progress.update(bar, description=f"loss {loss.item():.3f}  {shown}")
            progress.update(bar, completed=state.step)
            if state.step % checkpoint_every == 0 and state.step < config.steps:
                save_checkpoint(out / "checkpoints", state, model, optimizers)

    if state.step == config.steps:
        save_teacher(model, config, out)
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return model


def make_optimizers(config: Optimizer, model: PreTrainedModel) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the matrices inside the layers and AdamW for the rest."""
    inside = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers." in name]
    muon_takes = {id(p) for p in inside} if config.name == "muon" else set()
    rest = [p for p in model.parameters() if id(p) not in muon_takes]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay)
    ]
    if muon_takes:
        optimizers.append(Muon(inside, lr=config.muon_lr, weight_decay=config.weight_decay))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def learning_rate_scale(config: Optimizer, step: int, steps: int) -> float:
    """Linear warm-up, then 1 until ``decay_start``, then a cosine down to ``final_ratio``."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if step < config.decay_start:
        return 1.0
    progress = (step - config.decay_start) / max(1, steps - config.decay_start)
    return config.final_ratio + (1 - config.final_ratio) * 0.5 * (1 + math.cos(math.pi * progress))


def make_loss(model: PreTrainedModel, config: TeacherConfig) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Mean cross-entropy of the asked answers, predicted at the member tokens of the queries."""

    def loss_of(tokens: Tensor, rows: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=config.bf16):
            hidden = model.model(tokens, use_cache=False).last_hidden_state  # (B, T, D)
            logits = model.lm_head(hidden[:, rows])  # (B, Q, V): never logits nobody reads
        losses = cross_entropy(logits.float().flatten(0, 1), answers.flatten(), reduction="none")
        return (losses * asked.flatten()).sum() / asked.sum()

    return torch.compile(loss_of, dynamic=False) if config.compile else loss_of


def monitor(model: PreTrainedModel, config: TeacherConfig) -> dict[str, float]:
    """Single-query accuracy on every condition of the last stage, at full length."""
    found = {}
    for i, name in enumerate(config.stages[-1].mixture):
        seed = seeds.TEACHER_MONITOR.seed(config.seed, i)
        batch = sample_condition(name, seed, MONITOR_EXAMPLES, config.n_blocks, config.block_width, config.vocabulary)
        found[name] = float(accuracy(model, batch).float().mean())
    return found


def read_history(out: Path) -> list[dict[str, float]]:
    """The looks taken during training, oldest first."""
    history: list[dict[str, float]] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return history

"""Teacher accuracy per task, condition and seed (paper: ``tab:app-teachers``)."""

import time
from functools import partial
from pathlib import Path

from keepset import seeds
from keepset.paper.dense import evaluate_dense, evaluation_seed
from keepset.paper.experiment import Jobs
from keepset.paper.result import RunResult, current_commit
from keepset.paper.testbed.tasks import CONDITIONS
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.paper.testbed.teachers.training import read_history, train_teacher
from keepset.versions import package_versions

EXPERIMENT = "teachers"
SEEDS = {"single-hop": 5, "five-task": 5, "hardened": 2}
"""How many teachers of each mixture, as in the paper."""
EXAMPLES = {"smoke": 50, "small": 500, "paper": 500}
"""Evaluation examples per condition."""


def jobs(scale: str) -> Jobs:
    """Every teacher of a scale: train it where its weights are missing, then evaluate it."""
    return {
        f"teachers/{mixture}-{seed}": partial(train_and_evaluate, scale, mixture, seed)
        for mixture in SEEDS
        for seed in teacher_seeds(scale, mixture)
    }


def teacher_seeds(scale: str, mixture: str) -> range:
    """Numbers of the teachers of a mixture; two are enough to try what compares teachers."""
    return range(min(SEEDS[mixture], 2) if scale == "smoke" else SEEDS[mixture])


def teacher_folder(scale: str, mixture: str, seed: int) -> Path:
    """Where a teacher's weights are, from the root of the repository."""
    return Path("teachers") / scale / f"{mixture}-{seed}"


def train_and_evaluate(scale: str, mixture: str, seed: int) -> RunResult:
    folder = teacher_folder(scale, mixture, seed)
    if not (folder / "teacher.json").exists():
        config = find_preset(scale)(mixture, seed)
        train_teacher(config.model_copy(update={"compile": scale != "smoke"}), folder)
    return evaluate_teacher(folder, EXAMPLES[scale])


def evaluate_teacher(folder: Path, examples: int, conditions: list[str] | None = None) -> RunResult:
    """Evaluates the teacher saved in ``folder`` with the full context visible."""
    model, config = load_teacher(folder)
    history = read_history(folder)
    names = conditions or list(CONDITIONS)
    started = time.monotonic()
    metrics = evaluate_dense(model, config, names, examples)
    return RunResult(
        experiment=EXPERIMENT,
        scale=config.preset,
        command=f"keepset teacher evaluate {folder.as_posix()} --examples {examples}",
        config=config.model_dump(mode="json"),
        seeds={
            "teacher_init": seeds.TEACHER_INIT.seed(config.seed),
            "teacher_stream": seeds.TEACHER_STREAM.seed(config.seed),
            "evaluation": evaluation_seed(names[0]),
        },
        commit=current_commit(),
        versions=package_versions(),
        counts={
            "parameters": sum(p.numel() for p in model.parameters()),
            "steps": config.steps,
            "training_seconds": round(history[-1]["seconds"]) if history else 0,
            "examples": examples,
        },
        seconds=round(time.monotonic() - started, 1),
        metrics=metrics,
    )

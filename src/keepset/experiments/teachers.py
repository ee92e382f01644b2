"""Teacher accuracy per task, condition and seed (paper: ``tab:app-teachers``)."""

import time
from pathlib import Path

from keepset import seeds
from keepset.evaluation.dense import evaluate_dense, evaluation_seed
from keepset.models.teacher import load_teacher
from keepset.models.training import read_history
from keepset.results import RunResult, current_commit, package_versions
from keepset.tasks import CONDITIONS

EXPERIMENT = "teachers"


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

"""How long a small teacher takes to solve a mixture, per optimizer and start.

The paper's teachers leave the guessing plateau after thousands of AdamW steps; this measures what
each part of the small recipe is worth, on the same stages and data stream.
"""

from functools import partial
from pathlib import Path

from keepset import seeds
from keepset.paper.experiment import Jobs
from keepset.paper.result import Metric, RunResult, current_commit
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.presets import find_preset, with_optimizer
from keepset.paper.testbed.teachers.training import MONITOR_EXAMPLES, read_history, train_teacher
from keepset.versions import package_versions

EXPERIMENT = "optimizers"
THRESHOLD = 0.95


def jobs(scale: str) -> Jobs:
    """One run per arm, seed 0."""
    folders = {label: Path("runs") / scale / "optimizers" / label for label in arms(scale, seed=0)}
    folders["muon"] = teacher_folder(scale, "single-hop", 0)  # the recipe itself: trained already
    return {
        f"optimizers/{label}": partial(time_to_solve, label, config, folders[label])
        for label, config in arms(scale, seed=0).items()
    }


def arms(scale: str, seed: int) -> dict[str, TeacherConfig]:
    """The single-hop recipe, the same with AdamW, and with Muon but without its head start."""
    recipe = find_preset(scale)("single-hop", seed).model_copy(update={"compile": scale != "smoke"})
    no_head_start = recipe.architecture.model_copy(update={"offset_heads": 0, "qk_norm_start": 2.0})
    return {
        "muon": recipe,
        "adamw-1e-3": with_optimizer(recipe, "adamw", lr=1e-3),
        "muon-no-offset-heads": recipe.model_copy(update={"architecture": no_head_start}),
        "adamw-3e-4": with_optimizer(recipe, "adamw", lr=3e-4),
    }


def time_to_solve(label: str, config: TeacherConfig, out: Path) -> RunResult:
    """Trains one arm (or goes on with it) and reads when each task was first solved."""
    if not (out / "teacher.json").exists():
        train_teacher(config, out)
    history = read_history(out)
    tasks = list(config.stages[-1].mixture)
    metrics = []
    for task in tasks:
        best = max(look[task] for look in history)
        metrics.append(Metric(name=f"{task}_best", value=best, n=MONITOR_EXAMPLES))
        solved = next((look for look in history if look[task] >= THRESHOLD), None)
        if solved:
            metrics.append(Metric(name=f"{task}_solved_step", value=solved["step"], n=MONITOR_EXAMPLES))
            metrics.append(Metric(name=f"{task}_solved_seconds", value=solved["seconds"], n=MONITOR_EXAMPLES))
    return RunResult(
        experiment=EXPERIMENT,
        scale=config.preset,
        command=f"keepset reproduce optimizers --scale {config.preset}",
        config={
            "label": label,
            "seed": config.seed,
            "tasks": tasks,
            "threshold": THRESHOLD,
            "teacher": config.model_dump(mode="json"),
        },
        seeds={
            "teacher_init": seeds.TEACHER_INIT.seed(config.seed),
            "teacher_stream": seeds.TEACHER_STREAM.seed(config.seed),
        },
        commit=current_commit(),
        versions=package_versions(),
        counts={"steps": config.steps},
        seconds=history[-1]["seconds"],
        metrics=tuple(metrics),
    )

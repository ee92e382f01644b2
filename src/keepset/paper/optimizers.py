"""How long a small teacher takes to solve a mixture, per optimizer and start.

The paper's teachers leave the guessing plateau after thousands of AdamW steps; this measures what
each part of the small recipe is worth, on the same stages and data stream. One result per arm.
"""

from functools import partial
from pathlib import Path

from keepset import seeds
from keepset.paper.experiment import Experiment, Jobs, Report
from keepset.paper.result import Metric, RunResult, current_commit
from keepset.paper.results import Results
from keepset.paper.table import Table
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.presets import find_preset, with_optimizer
from keepset.paper.testbed.teachers.training import MONITOR_EXAMPLES, read_history, train_teacher
from keepset.versions import package_versions

NAME = "optimizers"
MIXTURE = "single-hop"
THRESHOLD = 0.95


def jobs(scale: str) -> Jobs:
    """One run per arm, seed 0."""
    folders = {arm: Path("runs") / scale / "optimizers" / arm for arm in arms(scale, seed=0)}
    folders["muon"] = teacher_folder(scale, MIXTURE, 0)  # the recipe itself: trained already
    return {
        f"optimizers/{arm}": partial(time_to_solve, arm, config, folders[arm])
        for arm, config in arms(scale, seed=0).items()
    }


def arms(scale: str, seed: int) -> dict[str, TeacherConfig]:
    """The single-hop recipe, the same with AdamW, and with Muon but without its head start."""
    recipe = find_preset(scale)(MIXTURE, seed).model_copy(update={"compile": scale != "smoke"})
    no_head_start = recipe.architecture.model_copy(update={"offset_heads": 0, "qk_norm_start": 2.0})
    return {
        "muon": recipe,
        "adamw-1e-3": with_optimizer(recipe, "adamw", lr=1e-3),
        "muon-no-offset-heads": recipe.model_copy(update={"architecture": no_head_start}),
        "adamw-3e-4": with_optimizer(recipe, "adamw", lr=3e-4),
    }


def time_to_solve(arm: str, config: TeacherConfig, out: Path) -> RunResult:
    """Trains one arm (or goes on with it) and reads when each task was first solved."""
    if not (out / "teacher.json").exists():
        train_teacher(config, out)
    history = read_history(out)
    tasks = list(config.stages[-1].mixture)
    metrics = []
    for task in tasks:
        found = {"best": max(look[task] for look in history)}
        solved = next((look for look in history if look[task] >= THRESHOLD), None)
        if solved:
            found |= {"solved_step": solved["step"], "solved_seconds": solved["seconds"]}
        metrics += [
            Metric(what=what, at={"condition": task}, value=value, n=MONITOR_EXAMPLES) for what, value in found.items()
        ]
    return RunResult(
        experiment=NAME,
        scale=config.preset,
        at={"mixture": config.mixture, "teacher": config.seed, "arm": arm},
        command=f"keepset reproduce optimizers --scale {config.preset}",
        config={"tasks": tasks, "threshold": THRESHOLD, "teacher": config.model_dump(mode="json")},
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


def optimizers_table(results: Results) -> Table:
    """One row per run; 'not reached' where the run ended first."""
    rows = []
    for run in sorted(results.runs.values(), key=lambda run: (run.at["arm"], run.at["teacher"])):
        found = {(metric.what, metric.at["condition"]): metric.value for metric in run.metrics}
        cells = []
        for task in run.config["tasks"]:
            step = found.get(("solved_step", task))
            minutes = found.get(("solved_seconds", task), 0.0) / 60
            cells.append(f"step {step:.0f} ({minutes:.1f} min)" if step is not None else "not reached")
            cells.append(f"{found['best', task]:.2f}")
        rows.append((str(run.at["arm"]), str(run.at["teacher"]), str(run.counts["steps"]), *cells))
    first = results.run()
    columns = [column for task in first.config["tasks"] for column in (f"{task} ≥ {first.config['threshold']}", "best")]
    return Table(
        name="time-to-solve",
        caption=(
            f"When a {first.scale} teacher first reaches the threshold on held-out single-query examples "
            f"({first.metrics[0].n} per look), per optimizer, same stages and data stream."
        ),
        columns=("Optimizer", "seed", "steps run", *columns),
        rows=tuple(rows),
        notes=("Minutes are of one thread while other work shared the machine: compare the steps.",),
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=11,
    jobs=jobs,
    teachers=lambda scale: [(MIXTURE, 0)],
    reports=(Report("Steps to solve: Muon against AdamW", "teachers", optimizers_table, beyond=True),),
)

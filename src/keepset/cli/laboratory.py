"""The paper: teachers, benchmarks, experiments, reports. Alone in reaching the laboratory, when a command runs."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from keepset.cli.shared import Device, example, out_console, say, topic
from keepset.files import check_output

if TYPE_CHECKING:
    from keepset.paper.experiment import Experiment, Jobs

Scale = Annotated[str, typer.Option(help="smoke, small or paper.")]
Results = Annotated[Path, typer.Option(help="Folder of result files.")]

commands = topic()
teacher_app = typer.Typer(
    help="Train and evaluate the teachers of the synthetic tasks.",
    epilog=example("keepset teacher evaluate teachers/small/five-task-0"),
    no_args_is_help=True,
)
commands.add_typer(teacher_app, name="teacher")


@teacher_app.command("train", epilog=example("keepset teacher train --preset small --seed 0 --out teacher"))
def teacher_train(
    out: Annotated[Path, typer.Option(help="Folder for weights, config and metrics; an unfinished run goes on.")],
    preset: Scale = "small",
    mixture: Annotated[
        str, typer.Option(help="single-hop, paper-records, pointers-first, five-task, ... or hardened.")
    ] = "five-task",
    seed: Annotated[int, typer.Option(min=0, max=999, help="Run number: weights and data stream.")] = 0,
    optimizer: Annotated[str | None, typer.Option(help="adamw or muon, instead of the preset's.")] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Matrix products in bfloat16.")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")] = False,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all by default.")] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 100,
) -> None:
    """Train a dense teacher; run the same command again to go on after a crash."""
    import torch

    from keepset.paper.testbed.teachers.presets import find_preset, with_optimizer
    from keepset.paper.testbed.teachers.training import train_teacher

    check_output(out, folder=True)
    if threads:
        torch.set_num_threads(threads)
    config = find_preset(preset)(mixture, seed).model_copy(update={"bf16": bf16, "compile": compile})
    if optimizer:
        config = with_optimizer(config, optimizer)
    train_teacher(config, out, device=device, checkpoint_every=checkpoint_every)
    say(f"teacher in {out}: weights, teacher.json, metrics.json")


@teacher_app.command("evaluate", epilog=example("keepset teacher evaluate teachers/small/five-task-0"))
def teacher_evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder written by 'keepset teacher train'.")],
    examples: Annotated[int, typer.Option(min=1, help="Examples per condition.")] = 500,
    condition: Annotated[list[str] | None, typer.Option(help="Only these conditions; repeat the option.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON here.")] = None,
) -> None:
    """Accuracy per task and condition, with n and a 95 % interval."""
    from keepset.paper.result import save_result
    from keepset.paper.teachers import evaluate_teacher
    from keepset.paper.terminal import metrics_table

    if out:
        check_output(out)
    result = evaluate_teacher(folder, examples, condition)
    out_console.print(metrics_table(f"{result.config['mixture']}, seed {result.config['seed']}", result.metrics))
    if out:
        save_result(result, out)
        say(f"written to {out}")


@commands.command(epilog=example("keepset bench engine"))
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="engine (labelling, beside Captum and ContextCite), memory (effects, readouts, policies), "
            "router (routers beside the teacher), prune (pruning beside reading everything), int8 (beside float32), "
            "evidence (natural text, beside every other tool), natural (pruning it without a question), kvpress (its "
            "KVzip on the fact sheets; make kvpress-compare) or reliability (labelling under abuse)."
        ),
    ],
    scale: Scale = "small",
    results: Results = Path("results"),
    only: Annotated[str | None, typer.Option(help="Only the runs whose name holds this.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, exists=True, help="Folder of SQuAD v1.1, for evidence; and of QASPER, for natural."
        ),
    ] = None,
) -> None:
    """Benchmarks. Timings depend on the machine: compare within one run."""
    from keepset.paper.bench import find_jobs
    from keepset.paper.durations import read_durations, said_beforehand
    from keepset.paper.experiment import missing
    from keepset.paper.testbed.teachers.presets import find_preset

    find_preset(scale)
    check_output(results, folder=True)
    jobs = _wanted({name: find_jobs(name, scale, data)}, only)[name]
    if runs := missing(jobs, results, scale):
        out_console.print(said_beforehand(read_durations(scale), runs, ()))
    _run_jobs(jobs, results, scale)


def _wanted(jobs: "dict[str, Jobs]", only: str | None) -> "dict[str, Jobs]":
    """Experiment -> its runs whose name holds ``only``, all of them without one; the error lists what there is."""
    if only is None:
        return jobs
    found = {name: {run: job for run, job in every.items() if only in run} for name, every in jobs.items()}
    if not any(found.values()):
        runs = [run for every in jobs.values() for run in every]
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        raise ValueError(
            f"only: expected part of a run's name, got {only!r}; the runs are {', '.join(runs[:3]) or 'none'}{more}"
        )
    return found


def _run_jobs(jobs: "Jobs", results: Path, scale: str, together: str | None = None, workers: int = 1) -> None:
    """Runs what is missing and says how long each took; ``workers`` jobs of the experiment ``together`` at a time."""
    from keepset.paper.experiment import finished, run_missing

    done = finished(jobs, results, scale)
    minutes = sum(result.seconds for result in done.values()) / 60
    out_console.print(f"{len(done)} of {len(jobs)} results are there ({minutes:.1f} minutes); running the rest")
    if together:
        from keepset.paper.parallel import run_missing_together

        made = run_missing_together(together, jobs, results, scale, workers)
    else:
        made = run_missing(jobs, results, scale)
    for name, result in made:
        out_console.print(f"  {name}: {result.seconds / 60:.1f} minutes")


@commands.command(epilog=example("keepset reproduce tab:chain"))
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Experiments, or tables and figures of the paper (tab:chain); all by default."),
    ] = None,
    scale: Scale = "small",
    results: Results = Path("results"),
    list_only: Annotated[
        bool, typer.Option("--list", help="Show each experiment's state and time, run nothing.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Runs of an experiment at a time, a process each.")] = 1,
    only: Annotated[str | None, typer.Option(help="Only the runs whose name holds this: a model, a task.")] = None,
    data: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Folder of SQuAD v1.1, where it is read.")
    ] = None,
) -> None:
    """Run the experiments whose results are missing, all by default; finished ones stay.

    Teachers whose weights are missing are trained first. How long it will take is said beforehand.
    """
    from keepset.paper.catalogue import find_experiments
    from keepset.paper.durations import read_durations, said_beforehand
    from keepset.paper.experiment import missing
    from keepset.paper.testbed.teachers.presets import find_preset

    find_preset(scale)
    if data and workers > 1:
        raise ValueError(f"data: expected one worker with a folder of data, got {workers}; leave --workers out")
    experiments = find_experiments(names or [])
    if list_only:
        out_console.print(_experiment_states(experiments, results, scale))
        return
    check_output(results, folder=True)
    every = {
        name: experiment.jobs_on(scale, data) if data and experiment.jobs_on else experiment.jobs(scale)
        for name, experiment in experiments.items()
    }
    wanted = _wanted(every, only)
    runs = [run for jobs in wanted.values() for run in missing(jobs, results, scale)]
    untrained = _untrained([experiments[name] for name, jobs in wanted.items() if missing(jobs, results, scale)], scale)
    if runs:
        teachers = [f"{mixture}-{seed}" for mixture, seed in untrained]
        out_console.print(said_beforehand(read_durations(scale), runs, teachers))
    for mixture, seed in untrained:
        _train_first(scale, mixture, seed)
    for name, jobs in wanted.items():
        out_console.print(name)
        _run_jobs(jobs, results, scale, name if workers > 1 else None, workers)


def _untrained(experiments: "list[Experiment]", scale: str) -> list[tuple[str, int]]:
    """Mixture and seed of every teacher that these experiments read and that has no weights yet, each once."""
    from keepset.paper.teachers import is_trained

    every = dict.fromkeys(teacher for experiment in experiments for teacher in experiment.teachers(scale))
    return [teacher for teacher in every if not is_trained(scale, *teacher)]


def _train_first(scale: str, mixture: str, seed: int) -> None:
    from keepset.paper.teachers import train_where_missing

    started = time.monotonic()
    train_where_missing(scale, mixture, seed)
    out_console.print(f"  teacher {mixture}-{seed}: {(time.monotonic() - started) / 60:.1f} minutes")


def _experiment_states(experiments: "dict[str, Experiment]", results: Path, scale: str) -> Table:
    """What is there and what is missing, with the time that was needed."""
    from keepset.paper.catalogue import labels
    from keepset.paper.experiment import finished

    table = Table("experiment", "of the paper", "results", "minutes")
    for name, experiment in experiments.items():
        jobs = experiment.jobs(scale)
        done = finished(jobs, results, scale)
        state = f"{len(done)} of {len(jobs)}" if len(done) < len(jobs) else f"all {len(jobs)}"
        minutes = sum(result.seconds for result in done.values()) / 60
        table.add_row(name, ", ".join(labels(experiment)) or "-", state, f"{minutes:.1f}")
    return table


@commands.command(epilog=example("keepset report tab:chain"))
def report(
    name: Annotated[
        str | None, typer.Argument(help="Only this table or figure: tab:chain, prune-bench; all by default.")
    ] = None,
    results: Results = Path("results"),
    docs: Annotated[Path, typer.Option(help="Folder for tables, figures, claims and the paper map.")] = Path("docs"),
    scale: Scale = "small",
    out: Annotated[Path | None, typer.Option(help="Instead: HTML pages for a browser, into this folder.")] = None,
) -> None:
    """Tables, figures, claims and the paper map from the tracked results; with a name, one table on the terminal."""
    from keepset.paper.pages import write_pages
    from keepset.paper.report import render_one, write_reports
    from keepset.paper.results import read_results

    if out and name:
        raise ValueError(f"out: expected no name beside it, because pages show all results, got {name!r}")
    if out:
        check_output(out, folder=True)
        out_console.print(f"{len(write_pages(results, out, scale))} pages; begin with {out / 'index.html'}")
    elif name is None:
        check_output(docs, folder=True)
        for path in write_reports(results, docs, scale):
            out_console.print(str(path))
    else:
        typer.echo(render_one(name, read_results(results, scale)))

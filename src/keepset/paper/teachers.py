"""Teacher accuracy per task, condition and seed (paper: ``tab:app-teachers``). One result per teacher."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

from keepset import seeds
from keepset.paper.dense import evaluate_dense, evaluation_seed
from keepset.paper.experiment import Choice, Difference, Experiment, Jobs, Report, Teachers
from keepset.paper.result import RunResult, current_commit
from keepset.paper.results import Results
from keepset.paper.table import Table, spread
from keepset.paper.testbed.tasks import CONDITIONS
from keepset.paper.testbed.teachers.presets import find_preset
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.paper.testbed.teachers.training import read_history, train_teacher
from keepset.versions import package_versions

NAME = "teachers"
FIVE = tuple(range(5))
SEEDS = {
    "single-hop": FIVE,
    "paper-records": FIVE,
    "paper-sizes": FIVE,
    "pointers-first": FIVE,
    "five-task": FIVE,
    "paper-chains": (0, 2),
    "paper-chains-long": (2,),
    "hardened": (0, 1),
    "hardened-pointers-first": (0, 1),
}
"""The teachers of each mixture, as many as in the paper; of variants that were not chosen, those they were tried on."""
RECORDS = "paper-records"
"""Single-record teachers of the paper's sizes, attention sharp from the start. The tables of labels and of
single-record routers rest on them."""
SOFT_RECORDS = "single-hop"
"""Single-record teachers of half as many records and far fewer keys, attention soft at the start: the other choice,
beside them where labels are compared."""
FIVE_TASK = "paper-sizes"
"""The five-task teachers that the tables rest on: chains, records, keys and values as in the paper."""
SMALLER_FIVE_TASK = "pointers-first"
"""The same chains in half as many records, with far fewer keys and values: those of the hardened teachers."""
MULTIHOP = "multihop_pointers_first"
"""The multi-hop task of those teachers."""
VALUE_FIRST = "five-task"
"""Five-task teachers whose chains stand value first, in blocks that a pointer fills."""
MORE_SEEDS = {("small", FIVE_TASK): (5, 6)}
"""Teachers beside those of the tables, for one question alone: attention came out alike on the five, and five are few
to say that of (``training_problem``)."""
EXAMPLES = {"smoke": 50, "small": 500, "paper": 500}
"""Evaluation examples per condition."""


def jobs(scale: str) -> Jobs:
    """Every teacher of a scale: train it where its weights are missing, then evaluate it."""
    return {
        f"teachers/{mixture}-{seed}": partial(train_and_evaluate, scale, mixture, seed)
        for mixture, seed in teachers_and_more(*SEEDS)(scale)
    }


def teacher_seeds(scale: str, mixture: str) -> tuple[int, ...]:
    """Numbers of the teachers of a mixture; two are enough to try what compares teachers."""
    return SEEDS[mixture][:2] if scale == "smoke" else SEEDS[mixture]


def teacher_folder(scale: str, mixture: str, seed: int) -> Path:
    """Where a teacher's weights are, from the root of the repository."""
    return Path("teachers") / scale / f"{mixture}-{seed}"


def every_teacher(*mixtures: str) -> Teachers:
    """All teachers of these mixtures, for experiments that read them all."""
    return lambda scale: [(mixture, seed) for mixture in mixtures for seed in teacher_seeds(scale, mixture)]


def teachers_and_more(*mixtures: str) -> Teachers:
    """The same with those of ``MORE_SEEDS``."""
    return lambda scale: [
        (mixture, seed)
        for mixture in mixtures
        for seed in (*teacher_seeds(scale, mixture), *MORE_SEEDS.get((scale, mixture), ()))
    ]


def is_trained(scale: str, mixture: str, seed: int) -> bool:
    return (teacher_folder(scale, mixture, seed) / "teacher.json").exists()


def train_where_missing(scale: str, mixture: str, seed: int) -> Path:
    """The folder of a teacher, trained now (or gone on with) where its weights are not there."""
    folder = teacher_folder(scale, mixture, seed)
    if not is_trained(scale, mixture, seed):
        config = find_preset(scale)(mixture, seed)
        train_teacher(config.model_copy(update={"compile": scale != "smoke"}), folder)
    return folder


def train_and_evaluate(scale: str, mixture: str, seed: int) -> RunResult:
    return evaluate_teacher(train_where_missing(scale, mixture, seed), EXAMPLES[scale])


def evaluate_teacher(folder: Path, examples: int, conditions: list[str] | None = None) -> RunResult:
    """Evaluates the teacher saved in ``folder`` with the full context visible."""
    model, config = load_teacher(folder)
    history = read_history(folder)
    names = conditions or list(CONDITIONS)
    started = time.monotonic()
    metrics = evaluate_dense(model, config, names, examples)
    return RunResult(
        experiment=NAME,
        scale=config.preset,
        at={"mixture": config.mixture, "teacher": config.seed},
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


SINGLE_RECORD = ("unique", "latest_write", "duplicate")
TASKS = {
    "single-hop": SINGLE_RECORD,
    "paper-records": SINGLE_RECORD,
    "paper-sizes": (*SINGLE_RECORD, "multihop_pointers_first", "aggregation"),
    "pointers-first": (*SINGLE_RECORD, "multihop_pointers_first", "aggregation"),
    "five-task": (*SINGLE_RECORD, "multihop", "aggregation"),
    "paper-chains": (*SINGLE_RECORD, "multihop_pointers_first", "aggregation"),
    "paper-chains-long": (*SINGLE_RECORD, "multihop_pointers_first", "aggregation"),
    "hardened": (*SINGLE_RECORD, "multihop_hardened", "aggregation"),
    "hardened-pointers-first": (*SINGLE_RECORD, "multihop_hardened", "aggregation"),
}
PAPER_RECORDS = {
    "unique": (0.98, 0.94, 0.97, 0.90, 0.92),
    "latest_write": (0.97, 0.97, 0.96, 0.94, 0.93),
    "duplicate": (0.99, 0.97, 0.99, 0.97, 0.97),
}
PAPER_FIVE_TASKS = {
    "unique": (0.97, 0.95, 0.99, 0.89, 0.91),
    "latest_write": (0.99, 0.98, 1.00, 0.94, 0.97),
    "duplicate": (0.99, 0.99, 1.00, 0.96, 0.97),
    MULTIHOP: (0.98, 0.97, 1.00, 0.07, 0.95),
    "aggregation": (0.90, 0.92, 0.92, 0.93, 0.87),
}
PAPER = {
    **{(mixture, task): seeds for mixture in (RECORDS, SOFT_RECORDS) for task, seeds in PAPER_RECORDS.items()},
    **{
        (mixture, task): seeds for mixture in (FIVE_TASK, SMALLER_FIVE_TASK) for task, seeds in PAPER_FIVE_TASKS.items()
    },
}
"""The paper's Table ``tab:app-teachers``, seeds 0 to 4."""


def teachers_table(results: Results) -> Table:
    """One row per mixture and task, one column per seed."""
    teachers = sorted(results.coordinates("teacher"))
    rows: list[tuple[str, ...]] = []
    half_widths = []
    for mixture in mixtures(results):
        if rows:
            rows.append(())
        for task in TASKS[mixture]:
            found = results.select("accuracy", mixture=mixture, condition=task).set_index("teacher")
            half_widths += [(high - low) / 2 for low, high in zip(found["low"], found["high"], strict=True)]
            ours = [f"{found['value'][teacher]:.3f}" if teacher in found.index else "" for teacher in teachers]
            rows.append((mixture, task, *ours, spread(PAPER[mixture, task]) if (mixture, task) in PAPER else ""))
    examples = sorted({run.counts["examples"] for run in results.runs.values()})
    return Table(
        name="tab-app-teachers",
        caption=(
            f"Final teacher accuracy per task and seed, single query, full context, scale {results.run().scale}. "
            "Last column: range over the paper's five seeds."
        ),
        columns=("Mixture", "Task", *(f"seed {teacher}" for teacher in teachers), "paper"),
        rows=tuple(rows),
        notes=(
            f"n = {', '.join(map(str, examples))} examples per cell; "
            f"the widest 95 % interval in the table is ±{max(half_widths):.3f}.",
        ),
    )


def conditions_table(results: Results) -> Table:
    """Mean accuracy over seeds, and the range, for every evaluation condition."""
    counts = {
        mixture: len(results.select("accuracy", mixture=mixture)["teacher"].unique()) for mixture in mixtures(results)
    }
    rows = []
    for condition in results.coordinates("condition"):
        cells = []
        for mixture, count in counts.items():
            values = list(results.select("accuracy", mixture=mixture, condition=condition)["value"])
            mean = f"{fmean(values):.3f} ({min(values):.2f}–{max(values):.2f})" if values else ""
            cells.append(mean if len(values) in (0, count) else f"{mean}, {len(values)} of {count}")
        n = results.select("accuracy", condition=condition)["n"].iloc[0]
        rows.append((condition, str(n), *cells))
    return Table(
        name="teacher-conditions",
        caption=(
            f"Dense accuracy on every condition: mean over teachers, range in brackets, scale {results.run().scale}."
        ),
        columns=("Condition", "n", *(f"{mixture} ({count} teachers)" for mixture, count in counts.items())),
        rows=tuple(rows),
        notes=("Conditions a mixture does not train on are listed too: they measure generalisation.",),
    )


def mixtures(results: Results) -> list[str]:
    """Those that have teachers, in the order of the paper."""
    found = results.coordinates("mixture")
    return [mixture for mixture in TASKS if mixture in found]


def accuracy_range(mixture: str, condition: str) -> Callable[[Results], str]:
    def here(results: Results) -> str:
        if mixture not in results.coordinates("mixture"):
            return f"no {mixture} teacher yet"
        return spread(results.values("accuracy", mixture=mixture, condition=condition))

    return here


DIFFERENCES = (
    Difference(
        "tab:app-teachers, unique retrieval",
        "0.90–0.98",
        accuracy_range(RECORDS, "unique"),
        "heads that start out looking at neighbours (time-to-solve has their part): nothing is left to learn at the "
        "length of training. Four times as long, teachers are far from perfect (teacher-conditions)",
    ),
    Difference(
        "Section 5, second hardened teacher",
        "0.05 dense",
        accuracy_range("hardened-pointers-first", "multihop_hardened"),
        "both of ours learned it; the five-task teachers, which never saw a shuffled chain, take the place of one that "
        "cannot (hardened-chains has them)",
    ),
)

CHOICES = (
    Choice(
        "Sizes of the key and value spaces",
        "16 families, 16 members, 64 values (the router's 23K parameters fit such a vocabulary); `small`: the same for "
        f"{RECORDS} and {FIVE_TASK}, 8, 12, 16 for the others",
    ),
    Choice(
        "How many obsolete writes, how many copies",
        "2 obsolete writes (4 in stale-4); 2 copies (1, 2, 4 in the redundancy conditions)",
    ),
    Choice("Family distractors", "exactly 4 other records share the queried key's family"),
    Choice(
        "What else is in a latest-write or duplicate context",
        "about two records per key, so that eight different keys can be asked",
    ),
    Choice(
        "Order of a chain",
        "first pointer, second pointer, value; `five-task`: value first, then the pointers back to the queried one; "
        "hardened: any order, two distractor chains",
    ),
    Choice(
        "What else is in a multi-hop context",
        "single records, in training as in evaluation; `five-task` and hardened teachers see distractor chains in "
        "training, without which a teacher learns to find the only chain instead of following it (`docs/log.md`)",
    ),
    Choice(
        "An aggregation query",
        "`QUERY f ALL`, answered by a count token of its own, 1 to 5, uniform for the first query",
    ),
    Choice(
        "A context with fewer things to ask than queries",
        "the slots are filled by repeating a query and not supervised",
    ),
)

EXPERIMENT = Experiment(
    name=NAME,
    place=10,
    jobs=jobs,
    teachers=teachers_and_more(*SEEDS),
    reports=(
        Report("tab:app-teachers", "teachers", teachers_table),
        Report("Accuracy of every teacher on every condition", "teachers", conditions_table, beyond=True),
    ),
    differences=DIFFERENCES,
    choices=CHOICES,
)

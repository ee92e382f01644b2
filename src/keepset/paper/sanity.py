"""Sanity anchors (paper, Section 2.2): does hiding blocks do what the tasks say it must?

One result per teacher: the anchors share its examples, and none is worth a run of its own.
"""

import time
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.interventions import Executor, Fast, GoldToken, Mask, Overwrite, filler
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import At, Metric, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table
from keepset.paper.teachers import FIVE_TASK, RECORDS, SOFT_RECORDS, every_teacher, teacher_folder, teacher_seeds
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.vocabulary import FILLER
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.paper.words import listed
from keepset.readouts import answer_attention

NAME = "sanity"
EXAMPLES = {"smoke": 40, "small": 500, "paper": 500}
OPERATOR_EXAMPLES = {"smoke": 20, "small": 200, "paper": 200}
"""Examples on which mask and overwrite are compared; the paper checks 200."""
MIXTURES = (RECORDS, SOFT_RECORDS, FIVE_TASK)


def jobs(scale: str) -> Jobs:
    """One result per teacher of the paper's two mixtures."""
    return {
        f"sanity/{mixture}-{seed}": partial(check_teacher, scale, mixture, seed)
        for mixture in MIXTURES
        for seed in teacher_seeds(scale, mixture)
    }


def check_teacher(scale: str, mixture: str, seed: int) -> RunResult:
    """Every anchor on one teacher, on examples it answers with the full context."""
    model, config = load_teacher(teacher_folder(scale, mixture, seed))
    started = time.monotonic()
    metrics: list[Metric] = []
    for task in config.stages[-1].mixture:
        metrics.append(annotated_set_suffices(model, config, task, EXAMPLES[scale]))
    metrics += masking_flips(model, config, EXAMPLES[scale])
    metrics.append(operators_agree(model, config, OPERATOR_EXAMPLES[scale]))
    metrics += top_attended(model, config, EXAMPLES[scale])
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={"teacher": config.model_dump(mode="json")},
        seeds={"intervention": seeds.INTERVENTION.seed(0)},
        counts={"examples": EXAMPLES[scale], "operator_examples": OPERATOR_EXAMPLES[scale]},
        metrics=metrics,
    )


def sample(config: TeacherConfig, task: str, examples: int) -> ExampleBatch:
    return sample_condition(
        task, seeds.INTERVENTION.seed(0), examples, config.n_blocks, config.block_width, config.vocabulary
    )


def correct(executor: Executor, batch: ExampleBatch, keep: Tensor) -> Tensor:
    """(B,) bool: is the gold token the most likely one when example b keeps the blocks ``keep[b]`` (B, N)?"""
    scorer = GoldToken()
    pairs = [(batch.example(i), frozenset(torch.nonzero(keep[i]).flatten().tolist())) for i in range(len(batch))]
    return torch.tensor([score.correct for score in scorer.score(executor, pairs)])


def annotated_set_suffices(model: PreTrainedModel, config: TeacherConfig, task: str, examples: int) -> Metric:
    """Share of solved examples whose first annotated set alone keeps the answer."""
    batch = sample(config, task, examples)
    executor = Fast(model)
    solved = correct(executor, batch, torch.ones_like(batch.family[:, 0]))
    kept = correct(executor, batch, batch.family[:, 0])
    return share("annotated_suffices", int((kept & solved).sum()), int(solved.sum()), condition=task)


def masking_flips(model: PreTrainedModel, config: TeacherConfig, examples: int) -> list[Metric]:
    """Unique retrieval: hiding the annotated block flips the answer, hiding a random other one does not."""
    batch = sample(config, "unique", examples)
    executor = Fast(model)
    everything = torch.ones_like(batch.family[:, 0])
    solved = correct(executor, batch, everything)
    annotated = batch.family[:, 0]
    generator = torch.Generator().manual_seed(seeds.INTERVENTION.seed(1))
    draw = torch.rand(annotated.shape, generator=generator).masked_fill(annotated, -1.0)
    other = torch.nn.functional.one_hot(draw.argmax(1), annotated.shape[1]).bool()
    n = int(solved.sum())
    metrics = []
    for name, hidden in (("annotated", annotated), ("random_other", other)):
        flipped = solved & ~correct(executor, batch, everything & ~hidden)
        metrics.append(share("flips", int(flipped.sum()), n, hidden=name, condition="unique"))
    return metrics


def operators_agree(model: PreTrainedModel, config: TeacherConfig, examples: int) -> Metric:
    """Unique retrieval: hiding the annotated block by mask and by filler gives the same correctness."""
    batch = sample(config, "unique", examples)
    keep = ~batch.family[:, 0]
    by_mask = correct(Fast(model, Mask()), batch, keep)
    by_filler = correct(Fast(model, Overwrite(filler(FILLER))), batch, keep)
    return share("mask_and_filler_agree", int((by_mask == by_filler).sum()), examples, condition="unique")


def top_attended(model: PreTrainedModel, config: TeacherConfig, examples: int) -> list[Metric]:
    """Unique retrieval: the block with most answer-row attention is the annotated one, on solved examples."""
    batch = sample(config, "unique", examples)
    solved = correct(Fast(model), batch, torch.ones_like(batch.family[:, 0]))
    attention = answer_attention(model, batch.first_query(), batch.blocks)  # (B, L, H, N)
    annotated = batch.family[:, 0].float().argmax(1)
    metrics = []
    for name, pooled in (("max", attention.amax(2)), ("mean", attention.mean(2))):
        top = pooled.sum(1).argmax(-1)  # (B,)
        found = (top == annotated) & solved
        metrics.append(
            share("top_attended_is_annotated", int(found.sum()), int(solved.sum()), heads=name, condition="unique")
        )
    return metrics


ANCHORS: tuple[tuple[str, str, str, At], ...] = (
    ("hiding annotated flips", "0.98", "flips", {"hidden": "annotated"}),
    ("hiding random other flips", "0.00", "flips", {"hidden": "random_other"}),
    ("mask and filler agree", "1.00", "mask_and_filler_agree", {}),
    ("top attended is annotated max heads", "0.99", "top_attended_is_annotated", {"heads": "max"}),
    ("top attended is annotated mean heads", "0.99", "top_attended_is_annotated", {"heads": "mean"}),
)
"""Title, the paper's number, what and where. Section 2.2 gives one number for the top attended block and does not name
the pooling."""


TASKS = (
    ("Unique retrieval", "unique", "the only record with the queried key", "one, of one block"),
    ("Latest write", "latest_write", "the last write of the queried key", "one, of one block"),
    ("Duplicate evidence", "duplicate", "any of some identical records", "one for each copy, of one block"),
    ("Multi-hop", "multihop_pointers_first", "a value behind two pointers", "one, of three blocks"),
    ("Aggregation", "aggregation", "how many records a family has", "one, of every record of the family"),
)
"""Title, condition, what decides the answer, the minimal sufficient sets."""


def tasks_table(results: Results) -> Table:
    """``tab:tasks``, with what the paper says is verified by intervention: the annotated set alone, by teacher."""
    rows = []
    for title, condition, decided, sets in TASKS:
        for mixture in results.coordinates("mixture"):
            found = results.select("annotated_suffices", mixture=mixture, condition=condition)
            if not found.empty:
                alone = ", ".join(f"{value:.2f}" for value in sorted(found["value"]))
                rows.append((title, decided, sets, mixture, alone, str(found["n"].sum())))
    return Table(
        name="tab-tasks",
        caption=(
            "The five tasks of Section 2.1: what decides the answer, its minimal sufficient sets, and how often an "
            f"annotated set alone keeps the answer, teacher by teacher ({results.scale})."
        ),
        columns=("Task", "Answer decided by", "Minimal sufficient sets", "Teachers", "Annotated set alone", "n"),
        rows=tuple(rows),
        notes=(
            "Solved examples of all teachers of a row together; of duplicates the first copy stays.",
            "Sets are known by construction. Where the set alone is not enough, a teacher leans on what else is in "
            "sight; budget-readings has how teachers count from a part of the context.",
        ),
    )


def sanity_table(results: Results) -> Table:
    """One row per anchor and kind of teacher: pooled share, range over teachers, examples."""
    suffices = tuple(
        (f"annotated suffices {task.replace('_', ' ')}", "", "annotated_suffices", {"condition": task})
        for task in results.coordinates("condition", "annotated_suffices")
    )
    rows = []
    for title, paper, what, at in (*suffices, *ANCHORS):
        for mixture in results.coordinates("mixture"):
            found = results.select(what, mixture=mixture, **at)
            if found.empty:
                continue
            mean = (found["value"] * found["n"]).sum() / found["n"].sum()
            rows.append(
                (
                    title,
                    mixture,
                    paper,
                    f"{mean:.3f}",
                    f"{found['value'].min():.3f}–{found['value'].max():.3f}",
                    str(len(found)),
                    str(found["n"].sum()),
                )
            )
    choices = sorted({run.config["teacher"]["vocabulary"]["values"] for run in results.runs.values()})
    return Table(
        name="sanity-anchors",
        caption=(
            f"Sanity anchors of Section 2.2 on the {results.scale} teachers: share of examples, pooled over teachers, "
            "with the range over teachers."
        ),
        columns=("Anchor", "Teachers", "paper", "ours", "range", "teachers", "n"),
        rows=tuple(rows),
        notes=(
            "Solved examples only, except mask against filler, which counts all.",
            f"A flip can fail by chance here: with the record hidden, a guess among {listed(choices)} values, by "
            "teacher, is right one time in as many or more often.",
        ),
    )


EXPERIMENT = Experiment(
    name=NAME,
    place=12,
    jobs=jobs,
    teachers=every_teacher(*MIXTURES),
    reports=(
        Report("tab:tasks", "teachers", tasks_table),
        Report("Section 2.2, sanity anchors", "teachers", sanity_table),
    ),
)

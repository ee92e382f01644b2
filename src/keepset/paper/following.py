"""Does a teacher follow the chain it is asked for? The same question with two more chains in sight.

A context with one chain can be answered by naming the chain's end, whatever the question says; with three, that is
right on one in three. One result per teacher: whose end is named?
"""

import time
from functools import partial

import torch

from keepset.blocks import Example
from keepset.paper.claim import Claim, every_claim
from keepset.paper.dense import evaluation_batch, evaluation_seed
from keepset.paper.experiment import Experiment, Jobs, Report, run_result
from keepset.paper.result import At, RunResult
from keepset.paper.results import Results
from keepset.paper.statistics import share
from keepset.paper.table import Table, with_interval
from keepset.paper.teachers import (
    FIVE_TASK,
    MULTIHOP,
    SMALLER_FIVE_TASK,
    VALUE_FIRST,
    every_teacher,
    teacher_folder,
    teacher_seeds,
)
from keepset.paper.testbed.tasks.oracle import Key, read_query, read_records
from keepset.paper.testbed.tasks.vocabulary import Vocabulary
from keepset.paper.testbed.teachers.teacher import load_teacher

NAME = "following"
EXAMPLES = {"smoke": 6, "small": 500, "paper": 500}
CONDITIONS = {
    FIVE_TASK: (MULTIHOP, "multihop_pointers_first_chains"),
    SMALLER_FIVE_TASK: (MULTIHOP, "multihop_pointers_first_chains"),
    "hardened-pointers-first": (MULTIHOP, "multihop_pointers_first_chains"),
    VALUE_FIRST: ("multihop", "multihop_chains"),
}
"""Mixture -> its order of a chain, with one and with three in sight. Only the first two never saw three in training."""
ENDS = ("asked", "another", "none")
"""Of the chain that is asked for, of another chain, of no chain."""


def jobs(scale: str) -> Jobs:
    """One result per teacher."""
    return {
        f"{NAME}/{mixture}-{seed}": partial(named_ends, scale, mixture, seed)
        for mixture in CONDITIONS
        for seed in teacher_seeds(scale, mixture)
    }


def named_ends(scale: str, mixture: str, seed: int) -> RunResult:
    """Whose end one teacher names, with one chain and with three."""
    started = time.monotonic()
    model, config = load_teacher(teacher_folder(scale, mixture, seed))
    metrics = []
    for condition in CONDITIONS[mixture]:
        batch = evaluation_batch(config, condition, EXAMPLES[scale])
        with torch.no_grad():
            said = model(batch.first_query(), logits_to_keep=1).logits[:, -1].argmax(-1).tolist()
        named = [whose_end(batch.example(i), said[i], config.vocabulary) for i in range(len(batch))]
        metrics += [share("named", named.count(end), len(named), condition=condition, end=end) for end in ENDS]
    return run_result(
        NAME,
        scale,
        started,
        at={"mixture": mixture, "teacher": seed},
        config={"mixture": mixture, "seed": seed, "conditions": list(CONDITIONS[mixture])},
        seeds={"evaluation": evaluation_seed(CONDITIONS[mixture][0])},
        counts={"examples": EXAMPLES[scale]},
        metrics=metrics,
    )


def whose_end(example: Example, said: int, vocabulary: Vocabulary) -> str:
    """The chain at whose end the value ``said`` stands; that of the question where two chains end alike."""
    says = {record.key: record.content for record in read_records(example.tokens, example.blocks, vocabulary) if record}

    def end(key: Key) -> int:
        content = says[key]
        return end(content) if isinstance(content, tuple) else content

    if said == end(read_query(example.tokens, example.query, vocabulary)):
        return "asked"
    pointers = [key for key, content in says.items() if isinstance(content, tuple)]
    return "another" if said in {end(key) for key in pointers} else "none"


def following_table(results: Results) -> Table:
    """Whose end every teacher names."""
    rows: list[tuple[str, ...]] = []
    for mixture, (one, three) in CONDITIONS.items():
        for teacher in sorted(results.select("named", mixture=mixture, condition=one, end=ENDS[0])["teacher"]):
            at: At = {"mixture": mixture, "teacher": int(teacher)}
            rows.append(
                (
                    f"{mixture}-{teacher}",
                    with_interval(results.metric("named", **at, condition=one, end="asked")),
                    *(with_interval(results.metric("named", **at, condition=three, end=end)) for end in ENDS),
                )
            )
        rows.append(())
    return Table(
        name="following",
        caption=(
            "Does a teacher follow the chain it is asked for? Right with one chain in sight; and with two more, how "
            "often it names the end of the chain that is asked for, of another chain, or neither."
        ),
        columns=("Teacher", "One chain: right", "Three: the one asked for", "Three: another", "Three: none"),
        rows=tuple(rows[:-1]),
        notes=(
            f"n = {results.run().counts['examples']} examples per cell; 95 % intervals in brackets; two chains that "
            "end in the same value count for the one asked for.",
            f"{FIVE_TASK} and {SMALLER_FIVE_TASK} teachers had one chain in sight in training, as in the paper; the "
            "others had three, too.",
        ),
    )


FOLLOWED = 0.9
"""Share of the contexts with three chains from which a teacher follows the one it is asked for."""


def following_claims(results: Results) -> list[Claim]:
    """What the paper's chains take for granted, on teachers that learned from such chains."""
    _, three = CONDITIONS[FIVE_TASK]
    teachers = sorted(results.select("named", mixture=FIVE_TASK, condition=three, end="asked")["teacher"])
    found = [
        results.metric("named", mixture=FIVE_TASK, teacher=int(teacher), condition=three, end="asked")
        for teacher in teachers
    ]
    if not found:
        return []
    claim = every_claim(
        f"Teachers that learned from one chain follow the one they are asked for among three ({FOLLOWED} or more)",
        "not in it",
        found,
        FOLLOWED,
        f"{len(found)} teachers × {found[0].n} examples",
    )
    return [claim]


EXPERIMENT = Experiment(
    name=NAME,
    place=36,
    jobs=jobs,
    teachers=every_teacher(*CONDITIONS),
    reports=(Report("Whose end is named where three chains are in sight", "chains", following_table, beyond=True),),
    claims=following_claims,
)

"""Accuracy of a teacher that reads the whole context, per condition."""

import zlib

from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.paper.result import Metric
from keepset.paper.statistics import share
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.teacher import accuracy


def evaluation_seed(condition: str) -> int:
    """The seed of a condition's evaluation set: the same examples for every teacher, whatever else is evaluated."""
    return seeds.EVALUATION.seed(0, zlib.crc32(condition.encode()) % seeds.DRAWS)


def evaluation_batch(config: TeacherConfig, condition: str, n: int) -> ExampleBatch:
    """The first ``n`` examples that every teacher and every router is scored on."""
    return sample_condition(
        condition, evaluation_seed(condition), n, config.n_blocks, config.block_width, config.vocabulary
    )


def evaluate_dense(
    model: PreTrainedModel, config: TeacherConfig, conditions: list[str], examples: int
) -> tuple[Metric, ...]:
    """One metric per condition: single-query accuracy with its interval."""
    metrics = []
    for name in conditions:
        batch = evaluation_batch(config, name, examples)
        metrics.append(share("accuracy", int(accuracy(model, batch).sum()), examples, condition=name))
    return tuple(metrics)

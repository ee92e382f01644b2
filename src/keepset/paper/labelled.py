"""What the label experiments share: a teacher, examples of a condition, effects, answer attention."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from transformers import PreTrainedModel

from keepset import seeds
from keepset.blocks import ExampleBatch, KeepSet
from keepset.interventions import Effects, Fast
from keepset.labels import task_evidence
from keepset.paper.teachers import teacher_folder
from keepset.paper.testbed.tasks import sample_condition
from keepset.paper.testbed.tasks.oracle import read_query, read_records
from keepset.paper.testbed.teachers.config import TeacherConfig
from keepset.paper.testbed.teachers.teacher import load_teacher
from keepset.readouts import answer_attention, pool_attention

RUN = 10
"""Of the seed range 'intervention': away from the sanity anchors' examples (runs 0 and 1)."""


@dataclass
class Labelled:
    """One teacher on examples of one condition; every teacher of a scale gets the same ones."""

    model: PreTrainedModel
    config: TeacherConfig
    condition: str
    n: int

    @classmethod
    def load(cls, scale: str, mixture: str, seed: int, condition: str, n: int) -> "Labelled":
        model, config = load_teacher(teacher_folder(scale, mixture, seed))
        return cls(model, config, condition, n)

    @cached_property
    def batch(self) -> ExampleBatch:
        c = self.config
        return sample_condition(
            self.condition, seeds.INTERVENTION.seed(RUN), self.n, c.n_blocks, c.block_width, c.vocabulary
        )

    @cached_property
    def effects(self) -> Effects:
        return Effects(self.batch, Fast(self.model))

    @cached_property
    def known(self) -> Tensor:
        """(B, N) bool: the annotated union."""
        return task_evidence(self.effects.probe.examples, len(self.batch.blocks))

    @cached_property
    def attention(self) -> Tensor:
        """(B, N) answer-position attention, pooled over layers, maximum over heads."""
        return pool_attention(answer_attention(self.model, self.batch.first_query(), self.batch.blocks), heads="max")

    @cached_property
    def obsolete(self) -> Tensor:
        """(B, N) bool: earlier writes of the queried key."""
        stale = torch.zeros_like(self.known)
        for i, example in enumerate(self.effects.probe.examples):
            asked = read_query(example.tokens, example.query, self.config.vocabulary)
            records = read_records(example.tokens, example.blocks, self.config.vocabulary)
            writes: KeepSet = frozenset(b for b, record in enumerate(records) if record and record.key == asked)
            stale[i, sorted(writes - example.evidence)] = True
        return stale

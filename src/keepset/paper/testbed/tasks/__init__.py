"""Stage 1: where examples come from."""

from keepset.paper.testbed.tasks.conditions import CONDITIONS, Condition, Task, find_condition, sample_condition
from keepset.paper.testbed.tasks.vocabulary import Vocabulary

__all__ = ["CONDITIONS", "Condition", "Task", "Vocabulary", "find_condition", "sample_condition"]

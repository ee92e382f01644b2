"""What is asked: three tasks as plain text, evaluated on some seeds and learned from on others.

No chat template: record 0 starts at the first token, as in the paper, whose audit checks just that. A template would
put a system message where the first-token sink is.
"""

import copy
from typing import Literal

from transformers import PreTrainedTokenizerBase

from keepset import seeds
from keepset.paper.pretrained.settings import OBSOLETE, RUN, Setting, frozen
from keepset.paper.testbed.tasks.record_chains import ChainExample, sample_record_chains
from keepset.paper.testbed.tasks.records import RecordExample, sample_records

Task = Literal["unique", "conflicting", "two_hop"]
TITLES: dict[Task, str] = {"unique": "unique", "conflicting": "conflicting", "two_hop": "two hops"}
SINGLE: tuple[Task, ...] = ("unique", "conflicting")
"""Tasks whose answer rests on one record."""
MOST_RECORDS = 1_000
"""Room in the seeds of a task for every record count."""


def plain(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The same tokenizer without its chat template; a token that begins every text stays."""
    same = copy.copy(tokenizer)
    same.chat_template = None
    return same


def task_seed(task: Task, records: int, learning: bool) -> int:
    """Evaluation examples and lessons never share a seed."""
    streams = seeds.ROUTER_STREAM if learning else seeds.EVALUATION
    return streams.seed(RUN, list(TITLES).index(task) * MOST_RECORDS + records)


def draw(
    setting: Setting, task: Task, records: int, numbers: range, before: str = "", learning: bool = False
) -> list[RecordExample]:
    """The examples ``numbers`` of a task."""
    tokenizer = plain(frozen(setting)[1])
    seed = task_seed(task, records, learning)
    if task == "two_hop":
        return list(draw_chains(setting, records, numbers, learning))
    stale = OBSOLETE if task == "conflicting" else 0
    return sample_records(tokenizer, seed, records, stale, len(numbers), first=numbers.start, before=before)


def draw_chains(setting: Setting, records: int, numbers: range, learning: bool = False) -> list[ChainExample]:
    """Two hops, with which record is which."""
    tokenizer = plain(frozen(setting)[1])
    seed = task_seed("two_hop", records, learning)
    return sample_record_chains(tokenizer, seed, records, len(numbers), first=numbers.start)

"""The documents of a part, each read once with everything visible.

Every policy of a part is judged on the same readings. Where they fit in memory they stay until the next part comes, so
that the policies of a part, one job each, share one dense forward per document.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.models.quantize import Quantize
from keepset.paper.bench.models import loaded
from keepset.paper.eviction.columns import CONTROL
from keepset.paper.eviction.reader import Reader
from keepset.readouts import SharedLayers, shared_layers
from keepset.text.document import Document
from keepset.text.long_context import document_seed, sample_documents

CONTROLS = {"register_log": CONTROL}
"""A task whose documents are asked a second question: any register, not the corrected one."""
EVALUATION_RUN = 1
"""Of the seed range: away from the documents of benchmarks and the quickstart."""
GENERATED = frozenset({"variable_tracking"})
"""Tasks whose answers come in an order of the model's own."""
HELD_TOKENS = 16_384
"""Of all documents of a part that stays in memory: 4 GB of a 1.5B model. Every policy reads a larger part anew."""


@dataclass(frozen=True)
class Part:
    """A few documents of one task: what can be run and stopped."""

    model: str
    task: str
    length: int
    """Tokens of a document, at most: whole lines."""
    documents: int
    number: int
    quantize: Quantize | None = None

    @property
    def conditions(self) -> tuple[str, ...]:
        """The task, and its control."""
        return (self.task, CONTROLS[self.task]) if self.task in CONTROLS else (self.task,)


class Reading:
    """One document after a dense forward, with what the model answers from all of it."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, conditions: dict[str, Document], task: str
    ) -> None:
        self.document = conditions[task]
        with shared_layers() as self._layers:
            self.reader = Reader(model, tokenizer, self.document, generated=task in GENERATED)
        self.asked = {
            condition: same.asked
            for condition, same in conditions.items()
            if self.reader.answers(same.asked, self.reader.everything, "post_prefill")
        }
        """Condition -> number of its question, where the model answers it."""

    def shared(self) -> AbstractContextManager[SharedLayers]:
        """Inside, readouts of the document find it read."""
        return shared_layers(self._layers)


def readings(part: Part) -> Iterator[Reading]:
    """The documents of a part, one after another."""
    model, tokenizer = loaded(part.model, part.quantize)
    read = _held(part)
    for number, conditions in enumerate(part_documents(part)):
        if number < len(read):
            yield read[number]
            continue
        reading = Reading(model, tokenizer, conditions, part.task)
        if part.documents * part.length <= HELD_TOKENS:
            read.append(reading)
        yield reading


@lru_cache(maxsize=1)
def _held(part: Part) -> list[Reading]:
    """What was read of the part so far. The readings of another part go before the first of this one comes."""
    return []


@lru_cache(maxsize=1)
def part_documents(part: Part) -> list[dict[str, Document]]:
    """Condition -> document, once per document; a control has the same text and asks something else."""
    _, tokenizer = loaded(part.model, part.quantize)
    first, stop = part.number * part.documents, (part.number + 1) * part.documents
    seed = document_seed(seeds.EVALUATION, EVALUATION_RUN, part.task, part.length)  # of the control too
    drawn = {
        condition: sample_documents(condition, tokenizer, seed, part.length, stop)[first:]
        for condition in part.conditions
    }
    return [dict(zip(drawn, row, strict=True)) for row in zip(*drawn.values(), strict=True)]

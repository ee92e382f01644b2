"""What is asked: a text cut into sentences, a question, its answer, and the sentences that hold it."""

import random
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.interventions import Executor
from keepset.labels.worth import Answer
from keepset.paper.bench.engine.peers import Ablated, Pieces, Rows
from keepset.paper.evidence.two_hop import two_hop_document
from keepset.text.example import TextExample, text_example
from keepset.text.prompt import SEPARATOR
from keepset.text.squad import SquadQuestion, read_squad, sample_squad

DEV, TUNE = "dev", "tune"
FILES = {DEV: "squad_dev_v1.1.json.gz", TUNE: "squad_train_44articles.json.gz"}
"""Names in the folder that the user gives; no article is in both."""
RUN = 66
"""Of the seed ranges used: away from every other experiment's."""


@dataclass(frozen=True)
class Unit:
    """One question."""

    id: str
    context: str
    question: str
    answer: str
    sentences: tuple[tuple[int, int], ...] | None
    """Character spans; None: as keepset cuts them."""
    gold: KeepSet
    """Numbers of the sentences that hold the answer."""
    number: int
    """In its set; random masks are drawn from it."""


@dataclass(frozen=True)
class Shared:
    """What tools have read of a question so far, for those that come after them."""

    answer: Answer
    rows: Rows
    """Prompts with sentences taken out, and the answer after them."""
    ablated: Ablated = field(default_factory=Ablated)


@dataclass(frozen=True)
class Task:
    """A question as a model reads it."""

    unit: Unit
    tokenizer: PreTrainedTokenizerBase
    shared: Shared | None = None
    """None: every tool reads for itself, so that what it costs can be told."""

    def answer(self, executor: Executor) -> Answer:
        """The gold answer under keep sets."""
        return Answer(self.example, executor) if self.shared is None else self.shared.answer

    @cached_property
    def example(self) -> TextExample:
        unit = self.unit
        blocks = "sentence" if unit.sentences is None else unit.sentences
        return text_example(self.tokenizer, unit.context, unit.question, unit.answer, blocks)

    @property
    def n_blocks(self) -> int:
        return len(self.example.blocks)

    def pieces(self, without: int | None = None) -> Pieces:
        """The prompt in pieces, for tools that take text away."""
        text, said = self.example.text, "".join(self.example.block_texts)
        start = text.index(said)
        kept = [sentence for i, sentence in enumerate(self.example.block_texts) if i != without]
        return Pieces(text[:start], kept, text[start + len(said) :], SEPARATOR, self.unit.question)

    def text(self, without: int) -> str:
        """The prompt without one sentence."""
        pieces = self.pieces(without)
        return pieces.before + "".join(pieces.sentences) + pieces.after


@lru_cache(maxsize=2)
def squad_questions(data: Path, split: str) -> list[SquadQuestion]:
    return read_squad(data / FILES[split])


def squad_sample(data: Path, split: str, n: int, draw: int = 0) -> list[SquadQuestion]:
    """``n`` questions, one of a paragraph, all articles in turn: the first of a longer sample are the shorter one."""
    return sample_squad(squad_questions(data, split), n, seeds.EVALUATION.seed(RUN, draw))


def squad_units(data: Path, n: int) -> list[Unit]:
    """Questions of SQuAD dev whose answer stands in exactly one sentence."""
    return [
        Unit(asked.id, asked.context, asked.question, asked.answers[0], asked.sentences, frozenset({asked.gold}), i)
        for i, asked in enumerate(squad_sample(data, DEV, n))
    ]


def two_hop_units(n: int) -> list[Unit]:
    """Documents in which one sentence names a person and another says something of that person."""
    units = []
    for i in range(n):
        made = two_hop_document(random.Random(seeds.EVALUATION.seed(RUN, 1 + i)))
        context = " ".join(made.sentences)
        units.append(Unit(f"two-hop-{i}", context, made.question, made.answer, None, made.gold, i))
    return units

"""Keep sets of some examples, each scored once: what every search asks."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from keepset.blocks import Example, ExampleBatch, KeepSet
from keepset.interventions.executors.base import Ask, Executor
from keepset.interventions.scorers import Score, Scorer

Found = TypeVar("Found")

Search = Generator[list[KeepSet], list[Score], Found]
"""A search over one example: yields keep sets, is sent their scores, returns what it found."""


class Probe:
    """Scores keep sets of ``examples`` with one executor and one scorer, and remembers them."""

    def __init__(self, examples: ExampleBatch | Sequence[Example], executor: Executor, scorer: Scorer) -> None:
        if isinstance(examples, ExampleBatch):
            examples = [examples.example(i) for i in range(len(examples))]
        for i, example in enumerate(examples):
            try:
                executor.check(Ask(example, frozenset(), scorer.continuations(example)))
            except ValueError as error:
                raise ValueError(f"example {i}: {error}") from error
        self.examples = list(examples)
        self.executor = executor
        self.scorer = scorer
        self._scores: dict[tuple[int, KeepSet], Score] = {}

    def __len__(self) -> int:
        return len(self.examples)

    def blocks(self, i: int) -> KeepSet:
        """The keep set that hides nothing of example ``i``."""
        return frozenset(range(len(self.examples[i].blocks)))

    def score(self, asks: Sequence[tuple[int, KeepSet]]) -> list[Score]:
        """The score of each (example number, keep set); together, so that they share work."""
        new = [ask for ask in dict.fromkeys(asks) if ask not in self._scores]
        if new:
            scores = self.scorer.score(self.executor, [(self.examples[i], keep) for i, keep in new])
            self._scores.update(zip(new, scores, strict=True))
        return [self._scores[ask] for ask in asks]

    @contextmanager
    def hold(self, numbers: Sequence[int]) -> Iterator[None]:
        """Inside, what is computed for these examples' clean contexts serves every later keep set."""
        with self.executor.hold([self.examples[i] for i in numbers]):
            yield

    def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Examples that may be held at once: as many as the executor's token budget has room for."""
        group: list[int] = []
        tokens = 0
        for i in numbers:
            length = len(self.examples[i].tokens)
            if group and tokens + length > self.executor.max_tokens:
                yield group
                group, tokens = [], 0
            group.append(i)
            tokens += length
        if group:
            yield group

    def search(self, searches: dict[int, Search[Found]]) -> dict[int, Found]:
        """Runs one search per example in lockstep, so that every round is one call of the executor."""
        found: dict[int, Found] = {}
        asked: dict[int, list[KeepSet]] = {}
        for i, search in searches.items():
            _advance(i, search, None, asked, found)
        while asked:
            scores = iter(self.score([(i, keep) for i, keeps in asked.items() for keep in keeps]))
            answers = {i: [next(scores) for _ in keeps] for i, keeps in asked.items()}
            asked = {}
            for i, answer in answers.items():
                _advance(i, searches[i], answer, asked, found)
        return found


def _advance(
    i: int,
    search: Search[Found],
    answer: list[Score] | None,
    asked: dict[int, list[KeepSet]],
    found: dict[int, Found],
) -> None:
    try:
        asked[i] = next(search) if answer is None else search.send(answer)
    except StopIteration as stop:
        found[i] = stop.value

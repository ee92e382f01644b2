"""What a text is worth for an answer, token by token, and how much of that a keep set restores.

    worth       log p(answer | everything) - log p(answer | nothing), over the tokens the text speaks to
    restored    what a keep set alone gives of that, as a share of the worth

Tokens that are as likely without the text ("The ... is") count for nothing, and no word for more than a few nats.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from keepset.blocks import Example, KeepSet
from keepset.interventions import Ask, Executor, Score, Search
from keepset.text.example import TextExample

SPEAKS = 0.5
"""Nats a token must gain from the text to count."""
MOST_NATS = 4.0
"""What one word counts for at most: a rare name in a sentence must not outweigh everything else the sentence says."""
NEARLY_ALL = 0.6
"""Share of the answer's worth that evidence restores. Chosen on questions that are never evaluated: docs/explain.md."""
QUESTION = 0.2
"""What a nat of the question counts for beside one of the answer, where blocks are ranked: of two sentences that say
the answer, the one that says it of what is asked comes first. Chosen on the same questions."""
ASKED = 0.3
"""Share of the question's worth that evidence restores where a block asks: less is an answer to something else. Chosen
on the same questions."""

Found = TypeVar("Found")


@dataclass
class Answer:
    """One answer of one example under keep sets: token by token, each keep set read once.

    Where the example says which words ask, they are read too, at no cost: every forward goes through them anyway.
    """

    example: Example
    executor: Executor
    tokens: tuple[int, ...] = ()
    """What is read after the prompt; the example's own answer by default."""
    words: tuple[int, ...] = ()
    """(L + A,) which word each token of the lead and the answer says; of the example's own answer known by itself,
    else every token is a word."""
    known: dict[KeepSet, Tensor] = field(default_factory=dict)
    """Keep set -> (L + A,) log-probability of every token of the lead and the answer."""
    spoken: dict[KeepSet, Tensor] = field(default_factory=dict)
    """The same up to the last token that the text speaks to, where nobody asked for more."""
    heard: dict[KeepSet, Tensor] = field(default_factory=dict)
    """Keep set -> (Q,) of the question's own words, whatever else was read with them; a beginning shares it."""

    def __post_init__(self) -> None:
        if not self.tokens and isinstance(self.example, TextExample):
            self.words = self.words or self.example.words
        self.tokens = self.tokens or self.example.answer
        self.words = self.words or tuple(range(len(self.lead) + len(self.tokens)))

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.example.blocks)))

    @property
    def beginning(self) -> Example:
        """The prompt up to the question's first word: the example that is read."""
        return self.example.before_question if isinstance(self.example, TextExample) else self.example

    @property
    def lead(self) -> tuple[int, ...]:
        """What stands between that and the answer: the question, a template's end."""
        return tuple(self.example.tokens[len(self.beginning.tokens) :].tolist())

    @property
    def n_asked(self) -> int:
        """How many tokens of the lead are the question's own words."""
        asked = self.example.asked if isinstance(self.example, TextExample) else None
        return len(asked) if asked else 0

    @property
    def gains(self) -> Tensor:
        """(A,) nats that each token gains from the whole text."""
        full, nothing = self.read([self.everything, frozenset()])
        return full - nothing

    @property
    def word_gains(self) -> Tensor:
        """(A,) nats that the word of each token gains: a number in four digits gains a little four times."""
        words = torch.tensor(self.words[len(self.lead) :])
        words = words - words[0]
        return torch.zeros(int(words[-1]) + 1).index_add(0, words, self.gains)[words]

    def read(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(A,) log-probability of every token of the answer under each keep set."""
        return [found[len(self.lead) :] for found in self.read_all(keeps)]

    def read_question(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(Q,) of the question's own words, with as little of the answer as there is to read."""
        wanted = list(keeps)
        self.heard.update({keep: self.known[keep][: self.n_asked] for keep in wanted if keep in self.known})
        self._hear([keep for keep in wanted if keep not in self.heard], self.tokens[:1], {})
        return [self.heard[keep] for keep in wanted]

    def read_all(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(L + A,) of the lead too."""
        wanted = list(keeps)
        self._hear([keep for keep in wanted if keep not in self.known], self.tokens, self.known)
        return [self.known[keep] for keep in wanted]

    def read_spoken(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(L + A',) up to the last token that the text speaks to: a long reply costs more than the blocks."""
        wanted = list(keeps)
        speaks = (self.gains > SPEAKS).nonzero()
        length = int(speaks[-1]) + 1 if len(speaks) else 1
        read = self.known | self.spoken
        self._hear([keep for keep in wanted if keep not in read], self.tokens[:length], self.spoken)
        return [(self.known | self.spoken)[keep][: len(self.lead) + length] for keep in wanted]

    def up_to(self, length: int) -> "Answer":
        """The answer's first tokens, with what has been read of them."""
        read = {keep: found[: len(self.lead) + length] for keep, found in self.known.items()}
        words = self.words[: len(self.lead) + length]
        return replace(self, tokens=self.tokens[:length], words=words, known=read, spoken={})

    def _hear(self, keeps: Sequence[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:
        self._ask(keeps, tokens, into)
        self.heard.update({keep: into[keep][: self.n_asked] for keep in keeps})

    def _ask(self, keeps: Sequence[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:
        asks = [Ask(self.beginning, keep, ((*self.lead, *tokens),)) for keep in dict.fromkeys(keeps)]
        for ask, views in zip(asks, self.executor.read(asks) if asks else [], strict=True):
            into[ask.keep] = torch.tensor([view.log_probs[0] for view in views]).mean(0)


@dataclass(frozen=True)
class Restored:
    """What a keep set alone gives, as shares of what the whole text gives."""

    answer: float
    question: float
    """1 where the text is worth nothing for the question, or a part of a longer answer is looked at."""
    both: float
    """The answer with as much of the question as its words count for: what blocks are ranked by."""

    @property
    def says(self) -> bool:
        """Nearly all of the answer is there."""
        return self.answer >= NEARLY_ALL

    @property
    def enough(self) -> bool:
        """And it is an answer to the question."""
        return self.says and self.question >= ASKED


@dataclass(frozen=True)
class Worth:
    """What the text is worth for some tokens of an answer, and what keep sets restore of it."""

    answer: Answer
    tokens: slice
    whole: bool = True
    """The tokens are the whole answer, whose evidence must say what is asked too; a part of a longer one need not."""

    @cached_property
    def gains(self) -> Tensor:
        """(L + A,) nats that each token of the lead and the answer gains from the whole text."""
        full, nothing = self.answer.read_all([self.answer.everything, frozenset()])
        return full - nothing

    @cached_property
    def inside(self) -> Tensor:
        """(L + A,) bool: the tokens this is about, the question's among them."""
        found = torch.zeros(len(self.gains), dtype=torch.bool)
        found[: self.answer.n_asked] = True
        found[len(self.answer.lead) :][self.tokens] = True
        return found

    @cached_property
    def counts(self) -> Tensor:
        """(L + A,) what a nat of each token counts for: 0 where the text does not speak, less than 1 of long gains."""
        speaks = self.inside & (self.gains > SPEAKS)
        words = torch.tensor(self.answer.words) - self.answer.words[0]
        of_word = torch.zeros(int(words[-1]) + 1).index_add(0, words, self.gains * speaks)[words]
        weights = (MOST_NATS / of_word.clamp(min=SPEAKS)).clamp(max=1.0)
        weights[: len(self.answer.lead)] *= QUESTION
        return weights * speaks

    @property
    def nats(self) -> float:
        """Of the answer."""
        answer = slice(len(self.answer.lead), None)
        return float(self.gains[answer][self.counts[answer] > 0].sum())

    def restored(self, keeps: Sequence[KeepSet]) -> list[Restored]:
        """What is there when only the keep set is; the text must speak to the answer."""
        nothing, *found = self.answer.read_spoken([frozenset(), *keeps])
        return [self._shares(each - nothing) for each in found]

    def joined(self, keep: KeepSet, others: Sequence[KeepSet]) -> list[Restored]:
        """What ``keep`` and each of ``others`` would restore together if every word were as likely as the likelier of
        the two makes it: a guess that reads nothing new where all were read alone."""
        nothing, first, *found = self.answer.read_spoken([frozenset(), keep, *others])
        return [self._shares(torch.maximum(first, each) - nothing) for each in found]

    def _shares(self, gains: Tensor) -> Restored:
        """Of what the whole text gives, token by token."""
        lead, counts = len(self.answer.lead), self.counts[: len(gains)]
        whole, there = counts * self.gains[: len(gains)], counts * gains
        asks = self.whole and bool(whole[:lead].any())
        return Restored(
            answer=float(there[lead:].sum() / whole[lead:].sum()),
            question=float(there[:lead].sum() / whole[:lead].sum()) if asks else 1.0,
            both=float(there.sum() / whole.sum()),
        )

    def scores(self, keeps: Sequence[KeepSet]) -> list[Score]:
        """The same for the searches of ``interventions``, which ask whether a keep set is enough."""
        return [Score(found.both * self.nats, found.enough) for found in self.restored(keeps)]

    def search(self, search: Search[Found]) -> Found:
        """Runs a search on this answer alone."""
        try:
            keeps = next(search)
            while True:
                keeps = search.send(self.scores(keeps))
        except StopIteration as stop:
            found: Found = stop.value
            return found

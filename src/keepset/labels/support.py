"""Evidence on natural text: what a text is worth for an answer, and which blocks are enough for that.

    worth       log p(answer | everything) - log p(answer | nothing), over the tokens the text speaks to
    restored    what a keep set alone gives of that, as a share of the worth
    carried     what hiding a block takes of it, as a share of the worth

    evidence    the smallest set that restores nearly all of the worth, and says what is asked
    others      blocks that do so too, each alone: they say it as well
    close       blocks that restore somewhat less than the best: a near-tie

Everything is relative to the worth, so that one rule serves small models and large ones, one token and twenty, whether
or not the model would have worded the answer so. Tokens that are as likely without the text ("The ... is") count for
nothing. The question's words are read as the answer's are and count for a fifth: of two sentences that say "two", the
one about what is asked is meant; and where the sentence that says the answer does not say of whom, the one that does
belongs to it. The paper's rule (``labels.evidence``) asks whether the answer is still the most likely one, which is
right for one token and forced choice; of a free-form answer some token always changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from keepset.blocks import Example, KeepSet
from keepset.interventions import Ask, Executor, Score, Search, certify, group_test
from keepset.text.example import TextExample

RULE = "worth"
"""The name of this rule in labels and reports."""
SPEAKS = 0.5
"""Nats a token must gain from the text to count."""
MOST_NATS = 4.0
"""What one word counts for at most: a rare name in a sentence must not outweigh everything else the sentence says."""
LEAST_WORTH = 1.0
"""Nats under which a text as a whole is worth nothing for an answer: the answer is as likely without it."""
NEARLY_ALL = 0.6
"""Share of the answer's worth that evidence restores. Chosen on questions that are never evaluated: docs/explain.md."""
QUESTION = 0.2
"""What a nat of the question counts for beside one of the answer, where blocks are ranked: of two sentences that say
the answer, the one that says it of what is asked comes first. Chosen on the same questions."""
ASKED = 0.3
"""Share of the question's worth that evidence restores where a block asks: less is an answer to something else."""
ASKS = 0.8
"""Share of the question's worth from which a block alone says what is asked. Both chosen on them too."""
AS_GOOD = 0.9
"""Share of what the best block restores from which another one is as good."""
CLOSE = 0.6
"""Share of what the best block restores from which another one is a near-tie."""
CARRIES = 0.1
"""Share of the worth under which hiding a group of blocks clears all of them (effort ``grouped``)."""
MOST_BLOCKS = 6
"""Blocks that a set is searched with: answers that need more are not explained by a set people can read."""

SupportEffort = Literal["evidence", "exact", "grouped", "certified"]
"""``evidence``: every block alone; where none is enough, beside the best one. ``exact``: and every block hidden.
``grouped``: hidden in groups. ``certified``: one set that can be proved on the example, or else ``grouped``."""

Found = TypeVar("Found")


def check_support_effort(effort: str) -> None:
    """One of the four words."""
    if effort not in get_args(SupportEffort):
        raise ValueError(f"effort: expected one of {', '.join(get_args(SupportEffort))}, got {effort!r}")


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

    def read(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(A,) log-probability of every token of the answer under each keep set."""
        return [found[len(self.lead) :] for found in self.read_all(keeps)]

    def read_question(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(Q,) of the question's own words."""
        return [found[: self.n_asked] for found in self.read_all(keeps)]

    def read_all(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(L + A,) of the lead too."""
        wanted = list(keeps)
        self._ask([keep for keep in wanted if keep not in self.known], self.tokens, self.known)
        return [self.known[keep] for keep in wanted]

    def read_spoken(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(L + A',) up to the last token that the text speaks to: a long reply costs more than the blocks."""
        wanted = list(keeps)
        speaks = (self.gains > SPEAKS).nonzero()
        length = int(speaks[-1]) + 1 if len(speaks) else 1
        read = self.known | self.spoken
        self._ask([keep for keep in wanted if keep not in read], self.tokens[:length], self.spoken)
        return [(self.known | self.spoken)[keep][: len(self.lead) + length] for keep in wanted]

    def up_to(self, length: int) -> "Answer":
        """The answer's first tokens, with what has been read of them."""
        read = {keep: found[: len(self.lead) + length] for keep, found in self.known.items()}
        words = self.words[: len(self.lead) + length]
        return replace(self, tokens=self.tokens[:length], words=words, known=read, spoken={})

    def _ask(self, keeps: Sequence[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:
        asks = [Ask(self.beginning, keep, ((*self.lead, *tokens),)) for keep in dict.fromkeys(keeps)]
        for ask, views in zip(asks, self.executor.read(asks) if asks else [], strict=True):
            into[ask.keep] = torch.tensor([view.log_probs[0] for view in views]).mean(0)


@dataclass(frozen=True)
class Support:
    """What an answer, or a part of one, rests on."""

    worth: float
    """Nats the whole text adds to the answer."""
    evidence: KeepSet = frozenset()
    """The smallest set found that restores nearly all of the worth; empty where no block makes the answer likelier."""
    others: KeepSet = frozenset()
    """Blocks outside the evidence that restore as much, each alone: they say it too."""
    close: KeepSet = frozenset()
    """Blocks that restore somewhat less, each alone."""
    restored: tuple[float, ...] = ()
    """(N,) share of the worth that each block restores alone; 0 where a certificate made that superfluous."""
    carried: tuple[float, ...] = ()
    """(N,) share of the worth that is lost when the block is hidden: 0 where a cheaper effort cleared it together with
    others, and empty where that was not asked."""
    total: float = 0.0
    """Share of the worth that the evidence restores."""
    enough: bool = False
    """The evidence restores nearly all of the answer's worth."""
    left: float | None = None
    """Share of the worth that is left with evidence and others hidden; None where that was not measured."""
    sufficient: KeepSet = frozenset()
    """Blocks that are enough, each alone."""


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
        lead, counts = len(self.answer.lead), self.counts[: len(nothing)]
        whole = counts * self.gains[: len(nothing)]
        asks = self.whole and bool(whole[:lead].any())
        there = [counts * (each - nothing) for each in found]
        return [
            Restored(
                answer=float(each[lead:].sum() / whole[lead:].sum()),
                question=float(each[:lead].sum() / whole[:lead].sum()) if asks else 1.0,
                both=float(each.sum() / whole.sum()),
            )
            for each in there
        ]

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


def find_support(
    answer: Answer, tokens: slice = slice(None), effort: SupportEffort = "evidence", whole: bool = True
) -> Support:
    """The evidence for the tokens ``tokens`` of an answer; ``whole``: they are what answers the question.

    Every block alone costs N times a block, the question and the answer: about one forward of the text when the answer
    is short. Pairs cost twice that. Leave-one-out costs half a forward of the text for each block.
    """
    check_support_effort(effort)
    worth = Worth(answer, tokens, whole)
    n_blocks = len(answer.example.blocks)
    if not worth.nats:  # a part of a longer answer that the text does not speak to rests on nothing
        return weak_support(worth) if whole else no_support(answer, tokens)
    if effort == "certified" and (certified := _certified(worth)):
        return certified
    singles = [frozenset({block}) for block in range(n_blocks)]
    alone = worth.restored(singles)
    if max(found.question for found in alone) < ASKS:  # what is asked stands all over the text: no block can be missing
        worth = replace(worth, whole=False)
        alone = worth.restored(singles)
    shares = [found.both for found in alone]
    best = max(range(n_blocks), key=lambda block: shares[block])
    carried: list[float] = []
    if effort in ("grouped", "certified"):
        hidden = worth.search(group_test(n_blocks, CARRIES * worth.nats)).hidden
        carried = [1 - hidden[block].log_prob / worth.nats if block in hidden else 0.0 for block in range(n_blocks)]
    elif effort == "exact":
        carried = [1 - found.both for found in worth.restored([answer.everything - single for single in singles])]
    evidence, found = (frozenset({best}), alone[best]) if alone[best].enough else smallest_set(worth, best)
    sufficient = frozenset(block for block in range(n_blocks) if alone[block].enough)
    others, close = as_good(shares, *evidence) if len(evidence) == 1 else (frozenset[int](), frozenset[int]())
    others &= sufficient
    left = None if effort == "evidence" else worth.restored([answer.everything - evidence - others])[0].both
    return Support(
        worth=worth.nats,
        evidence=evidence,
        others=others,
        close=close,
        restored=tuple(shares),
        carried=tuple(carried),
        total=found.both,
        enough=found.says,
        left=left,
        sufficient=sufficient,
    )


def weak_support(worth: Worth) -> Support:
    """Where no token of the answer gains from the whole text: the block that makes question and answer likelier alone,
    if one does.

    A small model can be put off by everything else a text says and still give the answer from the one sentence.
    """
    answer, counts = worth.answer, worth.counts.clone()
    counts[len(answer.lead) :] = 1.0
    nothing, *alone = answer.read_all([frozenset(), *(frozenset({block}) for block in sorted(answer.everything))])
    gains = [float((counts * (found - nothing)).sum()) for found in alone]
    most = max(gains)
    if most <= 0:
        return no_support(answer, worth.tokens)
    shares = [gain / most for gain in gains]
    best = shares.index(1.0)
    others, close = as_good(shares, best)
    return Support(0.0, frozenset({best}), others, close, tuple(shares), total=1.0, enough=True)


def as_good(shares: Sequence[float], best: int) -> tuple[KeepSet, KeepSet]:
    """Blocks that restore as much as the best one, and those that restore somewhat less."""
    by_bar = [
        frozenset(block for block, share in enumerate(shares) if share >= bar * shares[best]) - {best}
        for bar in (AS_GOOD, CLOSE)
    ]
    return by_bar[0], by_bar[1] - by_bar[0]


def no_support(answer: Answer, tokens: slice) -> Support:
    """Of tokens that the text is worth nothing for."""
    return Support(Worth(answer, tokens).nats, restored=(0.0,) * len(answer.example.blocks))


def smallest_set(worth: Worth, best: int) -> tuple[KeepSet, Restored]:
    """Blocks added to ``best``, those first that give most of what is missing beside it, until it is enough; then those
    taken out that the set can spare.

    Where ``MOST_BLOCKS`` are not enough: the first that say the answer, or else the set that restores most.
    """
    (first,) = worth.restored([frozenset({best})])
    rest = sorted(worth.answer.everything - {best})
    beside = dict(zip(rest, worth.restored([frozenset({best, block}) for block in rest]), strict=True))
    order = sorted(rest, key=lambda block: -(beside[block].question if first.says else beside[block].both))
    order = [best, *order][:MOST_BLOCKS]
    beginnings = [frozenset(order[: size + 1]) for size in range(len(order))]
    totals = worth.restored(beginnings)
    size = max(range(len(totals)), key=lambda size: (totals[size].enough, totals[size].says, totals[size].both))
    if totals[size].says:
        size = next(i for i, total in enumerate(totals) if (total.enough, total.says) == (totals[size].enough, True))
    keep, total = beginnings[size], totals[size]
    for block in reversed(order[: size + 1]):  # the least important first
        if len(keep) > 1:
            (without,) = worth.restored([keep - {block}])
            if (without.enough, without.says) == (total.enough, total.says) and (
                without.says or without.both >= total.both
            ):
                keep, total = keep - {block}, without
    return keep, total


def _certified(worth: Worth) -> Support | None:
    """A set that is enough, each block of which is necessary, among decoys too; None where none was found."""
    n_blocks = len(worth.answer.example.blocks)
    found = worth.search(certify(n_blocks, seed=0))
    if found is None:
        return None
    total = found.alone.log_prob / worth.nats
    restored, carried = [0.0] * n_blocks, [0.0] * n_blocks
    for block, score in found.hidden.items():
        carried[block] = 1 - score.log_prob / worth.nats
        restored[block] = total if len(found.keep) == 1 else 0.0
    (left,) = worth.restored([worth.answer.everything - found.keep])
    return Support(
        worth=worth.nats,
        evidence=found.keep,
        restored=tuple(restored),
        carried=tuple(carried),
        total=total,
        enough=True,
        left=left.both,
        sufficient=found.keep if len(found.keep) == 1 else frozenset(),
    )

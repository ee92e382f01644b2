"""Evidence on natural text: what a text is worth for an answer, and which blocks are enough for that.

    worth       log p(answer | everything) - log p(answer | nothing), over the tokens the text speaks to
    restored    what a keep set alone gives of that, as a share of the worth
    carried     what hiding a block takes of it, as a share of the worth

    evidence    the smallest set that restores nearly all of the worth
    others      blocks that do so too, each alone: they say it as well
    close       blocks that restore somewhat less than the best: a near-tie

Everything is relative to the worth, so that one rule serves small models and large ones, one token and twenty, whether
or not the model would have worded the answer so. Tokens that are as likely without the text ("The ... is") count for
nothing. The paper's rule (``labels.evidence``) asks whether the answer is still the most likely one, which is right for
one token and forced choice; of a free-form answer some token always changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from keepset.blocks import Example, KeepSet
from keepset.interventions import Ask, Executor, Score, Search, certify, group_test

RULE = "worth"
"""The name of this rule in labels and reports."""
SPEAKS = 0.5
"""Nats a token must gain from the text to count."""
MOST_NATS = 4.0
"""What one token counts for at most: a rare name in a sentence must not outweigh everything else the sentence says."""
LEAST_WORTH = 1.0
"""Nats under which a text as a whole is worth nothing for an answer: the answer is as likely without it."""
NEARLY_ALL = 0.7
"""Share of the worth that evidence restores. Chosen on questions that are never evaluated: docs/explain.md."""
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
    """One answer of one example under keep sets: token by token, each keep set read once."""

    example: Example
    executor: Executor
    tokens: tuple[int, ...] = ()
    """What is read after the prompt; the example's own answer by default."""
    known: dict[KeepSet, Tensor] = field(default_factory=dict)
    """Keep set -> (A,) log-probability of every token of the answer."""
    spoken: dict[KeepSet, Tensor] = field(default_factory=dict)
    """The same up to the last token that the text speaks to, where nobody asked for more."""

    def __post_init__(self) -> None:
        self.tokens = self.tokens or self.example.answer

    @property
    def everything(self) -> KeepSet:
        return frozenset(range(len(self.example.blocks)))

    @property
    def gains(self) -> Tensor:
        """(A,) nats that each token gains from the whole text."""
        full, nothing = self.read([self.everything, frozenset()])
        return full - nothing

    def read(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(A,) log-probability of every token under each keep set."""
        wanted = list(keeps)
        self._ask([keep for keep in wanted if keep not in self.known], self.tokens, self.known)
        return [self.known[keep] for keep in wanted]

    def read_spoken(self, keeps: Iterable[KeepSet]) -> list[Tensor]:
        """(A',) the same, up to the last token that the text speaks to: a long reply costs more than the blocks."""
        wanted = list(keeps)
        speaks = (self.gains > SPEAKS).nonzero()
        length = int(speaks[-1]) + 1 if len(speaks) else 1
        read = self.known | self.spoken
        self._ask([keep for keep in wanted if keep not in read], self.tokens[:length], self.spoken)
        return [(self.known | self.spoken)[keep][:length] for keep in wanted]

    def _ask(self, keeps: Sequence[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:
        asks = [Ask(self.example, keep, (tokens,)) for keep in dict.fromkeys(keeps)]
        for ask, views in zip(asks, self.executor.read(asks) if asks else [], strict=True):
            into[ask.keep] = torch.tensor([view.log_probs[0] for view in views]).mean(0)


@dataclass(frozen=True)
class Support:
    """What an answer, or a part of one, rests on."""

    worth: float
    """Nats the whole text adds."""
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
    left: float | None = None
    """Share of the worth that is left with evidence and others hidden; None where that was not measured."""

    @property
    def enough(self) -> bool:
        """The evidence restores nearly all of the worth."""
        return bool(self.evidence) and self.total >= NEARLY_ALL


@dataclass(frozen=True)
class Worth:
    """What the text is worth for some tokens of an answer, and what keep sets restore of it."""

    answer: Answer
    tokens: slice

    @property
    def speaks(self) -> Tensor:
        """(A,) bool: the tokens that count."""
        inside = torch.zeros(len(self.answer.tokens), dtype=torch.bool)
        inside[self.tokens] = True
        return inside & (self.answer.gains > SPEAKS)

    @property
    def nats(self) -> float:
        return float(self.answer.gains[self.speaks].sum())

    def restored(self, keeps: Sequence[KeepSet]) -> list[float]:
        """Share of the worth that is there when only the keep set is."""
        nothing, *found = self.answer.read_spoken([frozenset(), *keeps])
        gains = self.answer.gains[: len(nothing)]
        weights = (MOST_NATS / gains).clamp(max=1.0) * self.speaks[: len(nothing)]
        return [float((weights * (each - nothing)).sum() / (weights * gains).sum()) for each in found]

    def scores(self, keeps: Sequence[KeepSet]) -> list[Score]:
        """The same for the searches of ``interventions``, which ask whether a keep set is enough."""
        return [Score(share * self.nats, share >= NEARLY_ALL) for share in self.restored(keeps)]

    def search(self, search: Search[Found]) -> Found:
        """Runs a search on this answer alone."""
        try:
            keeps = next(search)
            while True:
                keeps = search.send(self.scores(keeps))
        except StopIteration as stop:
            found: Found = stop.value
            return found


def find_support(answer: Answer, tokens: slice = slice(None), effort: SupportEffort = "evidence") -> Support:
    """The evidence for the tokens ``tokens`` of an answer.

    Every block alone costs N times a block, the question and the answer: about one forward of the text when the answer
    is short. Pairs cost twice that. Leave-one-out costs half a forward of the text for each block.
    """
    check_support_effort(effort)
    worth = Worth(answer, tokens)
    n_blocks = len(answer.example.blocks)
    if not bool(worth.speaks.any()):  # a part of a longer reply that the text does not speak to rests on nothing
        return weak_support(answer) if tokens == slice(None) else no_support(answer, tokens)
    if effort == "certified" and (certified := _certified(worth)):
        return certified
    singles = [frozenset({block}) for block in range(n_blocks)]
    shares = worth.restored(singles)
    best = max(range(n_blocks), key=lambda block: shares[block])
    enough = shares[best] >= NEARLY_ALL
    carried: list[float] = []
    if effort in ("grouped", "certified"):
        hidden = worth.search(group_test(n_blocks, CARRIES * worth.nats)).hidden
        carried = [1 - hidden[block].log_prob / worth.nats if block in hidden else 0.0 for block in range(n_blocks)]
    elif effort == "exact":
        carried = [1 - share for share in worth.restored([answer.everything - single for single in singles])]
    if enough:
        evidence, total = frozenset({best}), shares[best]
        others = _at_least(shares, max(NEARLY_ALL, AS_GOOD * total)) - evidence
        close = _at_least(shares, CLOSE * total) - evidence - others
    else:
        evidence, total = smallest_set(worth, best)
        others, close = frozenset(), frozenset()
    left = None if effort == "evidence" else worth.restored([answer.everything - evidence - others])[0]
    return Support(worth.nats, evidence, others, close, tuple(shares), tuple(carried), total, left)


def weak_support(answer: Answer) -> Support:
    """Where no token gains from the whole text: the block that makes all of them likelier alone, if one does.

    A small model can be put off by everything else a text says and still give the answer from the one sentence.
    """
    singles = [frozenset({block}) for block in range(len(answer.example.blocks))]
    nothing, *alone = answer.read([frozenset(), *singles])
    gains = [float((found - nothing).sum()) for found in alone]
    most = max(gains)
    if most <= 0:
        return no_support(answer, slice(None))
    shares = [gain / most for gain in gains]
    evidence = frozenset({shares.index(1.0)})
    others = _at_least(shares, AS_GOOD) - evidence
    close = _at_least(shares, CLOSE) - evidence - others
    return Support(Worth(answer, slice(None)).nats, evidence, others, close, tuple(shares), total=1.0)


def no_support(answer: Answer, tokens: slice) -> Support:
    """Of tokens that the text is worth nothing for."""
    return Support(Worth(answer, tokens).nats, restored=(0.0,) * len(answer.example.blocks))


def smallest_set(worth: Worth, best: int) -> tuple[KeepSet, float]:
    """Blocks added to ``best``, those first that help most beside it, until nearly all is restored; then those taken
    out that the set can spare.

    Where ``MOST_BLOCKS`` do not restore it, the set of them that restores most. With it, the share it restores.
    """
    rest = sorted(worth.answer.everything - {best})
    beside = dict(zip(rest, worth.restored([frozenset({best, block}) for block in rest]), strict=True))
    order = [best, *sorted(rest, key=lambda block: -beside[block])][:MOST_BLOCKS]
    beginnings = [frozenset(order[: size + 1]) for size in range(len(order))]
    totals = worth.restored(beginnings)
    most = max(range(len(totals)), key=lambda size: totals[size])
    size = next((size for size, total in enumerate(totals) if total >= NEARLY_ALL), most)
    keep, total = beginnings[size], totals[size]
    for block in reversed(order[: size + 1]):  # the least important first
        if len(keep) > 1:
            (without,) = worth.restored([keep - {block}])
            if without >= min(NEARLY_ALL, total):
                keep, total = keep - {block}, without
    return keep, total


def _at_least(shares: Sequence[float], least: float) -> KeepSet:
    return frozenset(block for block, share in enumerate(shares) if share >= least)


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
    return Support(worth.nats, found.keep, restored=tuple(restored), carried=tuple(carried), total=total, left=left)

"""Evidence on natural text: what a text is worth for an answer, and which blocks are enough for that.

    worth       what the whole text adds to the answer (``labels.worth``)
    restored    what a keep set alone gives of that, as a share of the worth
    carried     what hiding a block takes of it, as a share of the worth

    evidence    the smallest set that restores nearly all of the worth, and says what is asked
    others      blocks that do so too, each alone: they say it as well
    close       blocks that restore somewhat less than the best: a near-tie

Everything is relative to the worth, so that one rule serves small models and large ones, one token and twenty, whether
or not the model would have worded the answer so. The question's words are read as the answer's are and count for a
fifth: of two sentences that say "two", the one about what is asked is meant; and where the sentence that says the
answer does not say of whom, the one that does belongs to it. The paper's rule (``labels.evidence``) asks whether the
answer is still the most likely one, which is right for one token and forced choice; of a free-form answer some token
always changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from keepset.blocks import KeepSet
from keepset.interventions import certify, group_test
from keepset.labels.worth import Answer, Restored, Worth

RULE = "worth"
"""The name of this rule in labels and reports."""
LEAST_WORTH = 1.0
"""Nats under which a text as a whole is worth nothing for an answer: the answer is as likely without it."""
ASKS = 0.8
"""Share of the question's worth from which a block alone says what is asked. Chosen as ``worth.NEARLY_ALL``."""
AS_GOOD = 0.9
"""Share of what the best block restores from which another one is as good."""
CLOSE = 0.6
"""Share of what the best block restores from which another one is a near-tie."""
CARRIES = 0.1
"""Share of the worth under which hiding a group of blocks clears all of them (effort ``grouped``)."""
PARTNERS = 8
"""Blocks that are read beside the best one where it is not enough: those that would add most, each word as likely as
the likelier of the two makes it. In twelve documents of twenty sentences the second of two that are needed came first
every time (docs/log.md)."""
MOST_BLOCKS = 6
"""Blocks that a set is searched with: answers that need more are not explained by a set people can read."""

SupportEffort = Literal["evidence", "exact", "grouped", "certified"]
"""``evidence``: every block alone; where none is enough, some beside the best one. ``exact``: and every block hidden.
``grouped``: hidden in groups. ``certified``: one set that can be proved on the example, or else ``grouped``."""


def check_support_effort(effort: str) -> None:
    """One of the four words."""
    if effort not in get_args(SupportEffort):
        raise ValueError(f"effort: expected one of {', '.join(get_args(SupportEffort))}, got {effort!r}")


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
    """Share of the worth that the evidence restores: what decides whether it is enough."""
    enough: bool = False
    """The evidence restores nearly all of the answer's worth."""
    left: float | None = None
    """Share of the worth that is left with evidence and others hidden; None where that was not measured."""
    sufficient: KeepSet = frozenset()
    """Blocks that are enough, each alone."""

    @property
    def named(self) -> KeepSet:
        """The evidence where it is enough; less than that is nobody's source."""
        return self.evidence if self.enough else frozenset()


def find_support(
    answer: Answer, tokens: slice = slice(None), effort: SupportEffort = "evidence", whole: bool = True
) -> Support:
    """The evidence for the tokens ``tokens`` of an answer; ``whole``: they are what answers the question.

    Every block alone costs N times a block, the question and the answer: about one forward of the text when the answer
    is short. Pairs cost less than that. Leave-one-out costs half a forward of the text for each block.
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
        total=found.answer,
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

    def missing(found: Restored) -> float:
        return found.question if first.says else found.both

    rest = sorted(worth.answer.everything - {best})
    guessed = dict(zip(rest, worth.joined(frozenset({best}), [frozenset({block}) for block in rest]), strict=True))
    partners = sorted(rest, key=lambda block: -missing(guessed[block]))[:PARTNERS]
    beside = dict(zip(partners, worth.restored([frozenset({best, block}) for block in partners]), strict=True))
    order = [best, *sorted(partners, key=lambda block: -missing(beside[block]))][:MOST_BLOCKS]
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

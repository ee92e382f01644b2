"""How far knowing what other people asked goes: the evidence of one question in that of the others about its paper.

    paper     questions a, b, c
    others    for a: the evidence of b and c                        -> how much of a's evidence it holds
    words     for a: as many words, as ranked without a question    -> how much they hold

Where the first is not much more than the second, knowing the paper's readers better would not help: what the next one
asks is then mostly chance. All questions with evidence in the text count, of papers that have two or more.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.paper.experiment import run_result
from keepset.paper.natural.corpus import QASPER, held_out
from keepset.paper.natural.documents import Read, papers
from keepset.paper.natural.measure import Scorer, clustered_share, random_scores
from keepset.paper.result import RunResult
from keepset.pruning.budget import Budget, select

QUARTER = 0.25
OTHERS, BOTH = "others", "others, then words"
SAME, WORDS, RANDOM = "as many words", "words", "random"
Counts = dict[tuple[str, str], list[int]]
"""Room and way of choosing -> evidence kept, all evidence."""


def run_others(experiment: str, scale: str, data: Path, ranked: Scorer) -> RunResult:
    """``ranked`` sees no question. Held-out papers, though nothing is chosen here."""
    started = time.monotonic()
    asked = {paper.id: [q.evidence for q in paper.questions if q.evidence] for paper in papers(data)}
    several = [document for document in held_out(scale, data, QASPER, False) if len(asked[document.id]) > 1]
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for document in several:
        for key, (kept, all_of_it) in count_kept(document, asked[document.id], ranked).items():
            pairs[key].append((kept, all_of_it))
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "others"},
        config={"quarter": QUARTER},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"papers": len(several), "questions": sum(len(asked[document.id]) for document in several)},
        metrics=[clustered_share("others", found, room=room, way=way) for (room, way), found in pairs.items()],
        command=f"keepset bench {experiment} --data FOLDER --only others",
    )


def count_kept(document: Read, evidence: list[KeepSet], ranked: Scorer) -> Counts:
    """One paper, over its questions; under ``words taken`` what the others' evidence takes of it."""
    found: Counts = defaultdict(lambda: [0, 0])
    words = document.words
    scores = {WORDS: ranked(document, None), RANDOM: random_scores(document, None)}
    for i, own in enumerate(evidence):
        others = frozenset[int]().union(*evidence[:i], *evidence[i + 1 :])
        room = Budget.tokens(sum(words[block] for block in others))
        _add(found["words taken", OTHERS], room.limit(words), sum(words))
        for key, kept in _ways(scores, others, words, room):
            _add(found[key], len(own & kept), len(own))
    return found


def _ways(
    scores: dict[str, Tensor], others: KeepSet, words: list[int], room: Budget
) -> Iterator[tuple[tuple[str, str], KeepSet]]:
    yield (SAME, OTHERS), others
    quarter = Budget.share_of_tokens(QUARTER)
    for way, score in scores.items():
        yield (SAME, way), select(score, words, room, frozenset())
        yield ("a quarter", way), select(score, words, quarter, frozenset())
    first = scores[WORDS].clone()
    first[sorted(others)] += 2 * first.abs().max() + 1
    yield ("a quarter", BOTH), select(first, words, quarter, frozenset())


def _add(counts: list[int], kept: int, all_of_it: int) -> None:
    counts[0] += kept
    counts[1] += all_of_it

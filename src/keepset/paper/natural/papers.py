"""What more papers to learn from bring without a question: every paper scored by a fit on some of the others.

    five folds of the papers that are not held out; of the other four folds a quarter, half or all, by chance
    router      states, words, heading and place, as they ship
    lexical     the same without the reader's states

Nothing held out is looked at, and nothing but papers is learned from: the router that ships has read articles as well.
"""

import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keepset import seeds
from keepset.paper.experiment import run_result
from keepset.paper.natural.corpus import CUTS, SETTINGS, SPLITS, qasper, reads
from keepset.paper.natural.documents import Cut, Read
from keepset.paper.natural.measure import Scorer, clustered_share, random_scores, shortest_first, wanted_kept
from keepset.paper.natural.scorers import lexical, routed
from keepset.paper.natural.training import Lessons, Training, train_text_router
from keepset.paper.result import RunResult

SHARES = (0.0, 0.25, 0.5, 1.0)
"""Of the papers of the other folds; from none nothing is learned but that short paragraphs are many."""
FOLDS = 5


def run_papers(experiment: str, scale: str, data: Path, share: float) -> RunResult:
    started = time.monotonic()
    cuts = {cut: by_name(scale, data, cut) for cut in CUTS}
    names = sorted(cuts["paragraph"], key=by_chance)
    pairs: dict[tuple[str, float], list[tuple[int, int]]] = {}
    learned = 0
    for fold in range(FOLDS):
        others = [name for i, name in enumerate(names) if i % FOLDS != fold]
        some = others[: max(2, round(share * len(others)))] if share else []
        learned = max(learned, len(some))
        read = [cuts[cut][name] for cut in CUTS for name in some]
        for scorer, score in learned_scorers(scale, read).items():
            for document in (cuts["paragraph"][name] for name in names[fold::FOLDS]):
                for budget, found in wanted_kept(document, score).items():
                    pairs.setdefault((scorer, budget), []).append(found)
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "papers", "share": share, "training_papers": learned},
        config={"reader": SETTINGS[scale].reader, "layers": SETTINGS[scale].layers, "folds": FOLDS},
        seeds={"statistics": seeds.STATISTICS.seed(0), "router_init": seeds.ROUTER_INIT.seed(0)},
        counts={"papers": len(names)},
        metrics=[
            clustered_share("recall", found, scorer=scorer, budget=budget) for (scorer, budget), found in pairs.items()
        ],
        command=f"keepset bench {experiment} --data FOLDER --only papers",
    )


def learned_scorers(scale: str, read: Sequence[Read]) -> dict[str, Scorer]:
    if not read:
        return {"short": shortest_first, "random": random_scores}
    router = train_text_router(reads(scale), SETTINGS[scale].layers, Lessons([], [], read), Training())
    return {"router": routed(router), "lexical": lexical(router)}


def by_name(scale: str, data: Path, cut: Cut) -> dict[str, Read]:
    """The papers that are not held out and that the reader has read; questions are not needed."""
    return {d.id: replace(d, asked=[]) for split in SPLITS for d in qasper(scale, data, split, cut)}


def by_chance(name: str) -> int:
    """An order of papers that has nothing to do with their length."""
    return zlib.crc32(f"order {name}".encode())

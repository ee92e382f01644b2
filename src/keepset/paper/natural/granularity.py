"""Whether cutting papers into sentences instead of paragraphs keeps more of what is asked, in as many words.

    wanted       the sentences of evidence that hold an extractive answer
    paragraphs   one is kept where its paragraph is      sentences    one is kept where it is chosen itself

No question, and scorers that need no reader; held-out papers.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from keepset import seeds
from keepset.paper.experiment import run_result
from keepset.paper.natural.corpus import CUTS, held_out_papers
from keepset.paper.natural.documents import answering_sentences, read_paper
from keepset.paper.natural.measure import BUDGETS, Scorer, clustered_share, kept_blocks
from keepset.paper.result import RunResult
from keepset.text.qasper import QasperPaper

Counts = dict[tuple[str, str, float], tuple[int, int]]
"""Blocks, scorer and budget -> answering sentences that are kept, and all."""


def run_granularity(experiment: str, scale: str, data: Path, scorers: Mapping[str, Scorer]) -> RunResult:
    started = time.monotonic()
    pairs: dict[tuple[str, str, float], list[tuple[int, int]]] = defaultdict(list)
    papers = [paper for paper in held_out_papers(scale, data) if answering_sentences(paper)[1]]
    for paper in papers:
        for key, found in kept_both_ways(paper, scorers).items():
            pairs[key].append(found)
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "granularity"},
        config={"wanted": "extractive answers"},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"papers": len(papers)},
        metrics=[
            clustered_share("answering_sentences", found, blocks=blocks, scorer=scorer, budget=budget)
            for (blocks, scorer, budget), found in pairs.items()
        ],
        command=f"keepset bench {experiment} --data FOLDER --only granularity",
    )


def kept_both_ways(paper: QasperPaper, scorers: Mapping[str, Scorer]) -> Counts:
    homes, wanted = answering_sentences(paper)
    found: Counts = {}
    for cut in CUTS:
        document = read_paper(None, paper, cut)
        for scorer, score in scorers.items():
            scores = score(document, None)
            for budget in BUDGETS:
                kept = kept_blocks(scores, document.words, budget)
                hits = sum((homes[i] if cut == "paragraph" else i) in kept for i in wanted)
                found[cut, scorer, budget] = (hits, len(wanted))
    return found

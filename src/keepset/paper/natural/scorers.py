"""What ranks blocks: the router, its words alone, and its rivals."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from keepset.paper.natural.documents import AskedOf, Read, part
from keepset.paper.natural.measure import Scorer
from keepset.routers.text import TextRouter
from keepset.routers.words import fit_words
from keepset.text.bm25 import bm25
from keepset.text.lexical import stemmed
from keepset.text.qasper import QasperPaper


def routed(router: TextRouter) -> Scorer:
    """As the compressor ranks, with words for lengths."""

    @torch.no_grad()
    def score(document: Read, asked: AskedOf | None) -> Tensor:
        lengths = torch.tensor(document.words).float().clamp(min=1).log()
        if asked is None:
            return logsigmoid(router(document.features)) - router.length_power * lengths
        answers = router.answering(part(document.features, asked.blocks), asked.features)
        return answers - router.question_length_power * lengths[asked.blocks.start : asked.blocks.stop]

    return score


def lexical(router: TextRouter) -> Scorer:
    """What the router says before its reader has read anything."""

    @torch.no_grad()
    def score(document: Read, asked: AskedOf | None) -> Tensor:
        if asked is None:
            lengths = torch.tensor(document.words).float().clamp(min=1).log()
            return logsigmoid(router.said(document.features)) - router.length_power * lengths
        scores: Tensor = router.lexical((asked.features.numbers - router.question_center) / router.question_scale)
        return scores.squeeze(-1)

    return score


def words_scorer(training: Sequence[QasperPaper]) -> Scorer:
    """Logistic regression on the words of papers; lengths count as for the router."""
    texts = [paper.text[start:stop] for paper in training for start, stop in paper.paragraphs]
    wanted = [i in paper.evidence for paper in training for i in range(len(paper.paragraphs))]
    weights = fit_words(texts, torch.tensor(wanted))

    @torch.no_grad()
    def score(document: Read, asked: AskedOf | None) -> Tensor:
        lengths = torch.tensor(document.words).float().clamp(min=1).log()
        return logsigmoid(weights([passage.text for passage in document.passages])) - 0.5 * lengths

    return score


def bm25_scores(document: Read, asked: AskedOf | None) -> Tensor:
    assert asked is not None
    texts = [passage.text for passage in document.passages[asked.blocks.start : asked.blocks.stop]]
    return torch.tensor(bm25(asked.question, texts))


def stem_scores(document: Read, asked: AskedOf | None) -> Tensor:
    """BM25 of the first letters of the words that say something: the strongest scorer without training."""
    assert asked is not None
    texts = [passage.text for passage in document.passages[asked.blocks.start : asked.blocks.stop]]
    said = [" ".join(stemmed(text)) for text in texts]
    return torch.tensor(bm25(" ".join(stemmed(asked.question)), said))

"""Answers that survive: the reader, as a model that answers, is given two of sixteen sentences and the question.

    dense       all sixteen sentences, the question      -> a reply that contains an annotator's answer, or is left out
    kept        the scorer's two sentences, as text      -> does the reply still contain one?

Mode ``text``, greedy, the model's own chat template: what any engine behind ``keepset compress`` does.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset import seeds
from keepset.blocks import KeepSet
from keepset.models.endings import spoken, turn_ends
from keepset.paper.experiment import run_result
from keepset.paper.natural.documents import AskedOf, Read
from keepset.paper.natural.measure import Scorer, clustered_share
from keepset.paper.result import Metric, RunResult
from keepset.policies import Context, SnapKV
from keepset.pruning.cache import KeptCache, generate, prefill_kept, shortened
from keepset.text.prompt import common_length, document_tokens, lay_out, prompt_tokens
from keepset.text.squad import SquadArticle

KEPT = 2
"""Sentences of sixteen."""
NEW_TOKENS = 24
"""Of a reply: a sentence that repeats the question and answers it."""


@dataclass
class Answering:
    """A model that is asked about texts; a text that several questions are asked of is read once."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    new_tokens: int = NEW_TOKENS
    _read: dict[str, tuple[list[int], KeptCache]] = field(default_factory=dict)

    def reply(self, text: str, question: str) -> str:
        if text not in self._read:
            self._read.clear()
            tokens = document_tokens(self.tokenizer, text)
            (cache,) = prefill_kept(self.model, [(torch.tensor(tokens), torch.arange(len(tokens)))], "text")
            self._read[text] = (tokens, cache)
        tokens, cache = self._read[text]
        whole = prompt_tokens(self.tokenizer, text, question)
        cut = common_length(whole, tokens)
        rest = torch.tensor(whole[cut:])
        ends = turn_ends(self.model, self.tokenizer)
        return spoken(self.tokenizer, generate(self.model, shortened(cache, cut), rest, self.new_tokens, ends))


def run_answers(
    experiment: str,
    scale: str,
    reader: tuple[str, PreTrainedModel, PreTrainedTokenizerBase],
    articles: Sequence[tuple[SquadArticle, Read]],
    scorers: Mapping[str, Scorer],
    per_article: int,
) -> RunResult:
    """The first questions of every article; articles, not questions, are drawn again for the interval."""
    started = time.monotonic()
    name, model, tokenizer = reader
    answering = Answering(model, tokenizer)
    preserved: dict[str, list[tuple[int, int]]] = {scorer: [] for scorer in scorers}
    dense = []
    for article, document in articles:
        asked = _answered(answering, article, document, per_article)
        dense.append((len(asked), min(per_article, len(document.asked))))
        hits = dict.fromkeys(scorers, 0)
        for number in asked:
            replies: dict[KeepSet, bool] = {}
            for scorer, score in scorers.items():
                order = score(document, document.asked[number]).sort(descending=True, stable=True).indices
                keep = frozenset(order[:KEPT].tolist())
                if keep not in replies:
                    replies[keep] = _contains(answering, article, number, keep)
                hits[scorer] += replies[keep]
        for scorer in scorers:
            preserved[scorer].append((hits[scorer], len(asked)))
    metrics: list[Metric] = [clustered_share("dense", dense)]
    if metrics[0].value:
        metrics += [clustered_share("preserved", pairs, scorer=scorer) for scorer, pairs in preserved.items()]
    return run_result(
        experiment,
        scale,
        started,
        at={"kind": "answers"},
        config={"model": name, "mode": "text", "kept": KEPT, "new_tokens": NEW_TOKENS},
        seeds={"statistics": seeds.STATISTICS.seed(0)},
        counts={"documents": len(dense), "questions": sum(n for _, n in dense)},
        metrics=metrics,
        command=f"keepset bench {experiment} --data FOLDER --only answers",
    )


def _answered(answering: Answering, article: SquadArticle, document: Read, n: int) -> list[int]:
    """Numbers of the questions that the model answers when it reads all sixteen sentences."""
    asked = range(min(n, len(document.asked)))
    return [i for i in asked if _contains(answering, article, i, frozenset(range(len(document.asked[i].blocks))))]


def _contains(answering: Answering, article: SquadArticle, number: int, keep: KeepSet) -> bool:
    asked = article.asked[number]
    said = "".join(f"{article.said(asked.sentences[i]).strip()} " for i in sorted(keep)).strip()
    reply = answering.reply(said, asked.question).lower()
    return any(answer.lower() in reply for answer in asked.answers)


def snapkv(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """What the model itself looks at from the question; it reads all sentences first."""

    def score(document: Read, asked: AskedOf | None) -> Tensor:
        assert asked is not None
        said = [p.text.strip() for p in document.passages[asked.blocks.start : asked.blocks.stop]]
        prompt = lay_out(tokenizer, " ".join(said), list(_places(said)), asked.question)
        return SnapKV().score(Context(model, prompt.tokens, prompt.blocks, prompt.question))

    return score


def _places(said: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Characters of each sentence where they are joined by spaces; the space goes with the sentence before it."""
    start = 0
    for sentence in said:
        yield start, start + len(sentence)
        start += len(sentence) + 1

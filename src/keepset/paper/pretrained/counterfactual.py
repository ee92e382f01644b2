"""Counterfactual SQuAD: sixteen sentences whose answer has been replaced, so that no model can know it by heart.

sentence 3   Dr. Vane ran the pier until the war.   ->   Anna Holm ran the pier until the war.
question     Who ran the pier?
answer       Anna Holm        candidates Anna Holm, Dr. Vane, Peter Lund, Maria Ek

A substitute is of the answer's kind (a year, another number, a name, other words), is the answer of another question,
and stands nowhere in the text. The true answer is among the candidates: whoever answers from memory chooses it.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

from keepset import seeds
from keepset.interventions.scorers import check_candidates
from keepset.paper.evidence.units import DEV, FILES, TUNE
from keepset.paper.pretrained.examples import plain
from keepset.paper.pretrained.settings import RUN, Setting, frozen
from keepset.text.example import TextExample, text_example
from keepset.text.squad import ArticleQuestion, SquadArticle, read_articles

SENTENCES = 16
CANDIDATES = 4
MOST_WORDS = 5
"""Of an answer."""


def kind(answer: str) -> str:
    """What sort of thing an answer is, roughly."""
    if re.fullmatch(r"1\d{3}|20\d{2}", answer):
        return "year"
    if re.search(r"\d", answer):
        return "number"
    words = answer.split()
    return "name" if all(word[:1].isupper() for word in words) else "words"


@lru_cache(maxsize=2)
def articles(data: Path, split: str) -> list[SquadArticle]:
    return read_articles(data / FILES[split], SENTENCES)


@lru_cache(maxsize=2)
def questions(data: Path, split: str) -> list[tuple[SquadArticle, ArticleQuestion]]:
    """One of every window of sentences, in an order of chance."""
    rng = random.Random(seeds.EVALUATION.seed(RUN, int(split == TUNE)))
    found = []
    for article in articles(data, split):
        windows: dict[int, list[ArticleQuestion]] = {}
        for asked in article.asked:
            if len(asked.answers[0].split()) <= MOST_WORDS and asked.answers[0] not in asked.question:
                windows.setdefault(asked.sentences.start, []).append(asked)
        found += [(article, rng.choice(asked)) for asked in windows.values()]
    rng.shuffle(found)
    return found


@lru_cache(maxsize=2)
def answers_by_kind(data: Path, split: str) -> dict[str, list[str]]:
    """Kind -> the different answers of all questions, as substitutes."""
    found: dict[str, list[str]] = {}
    for answer in sorted({asked.answers[0] for article in articles(data, split) for asked in article.asked}):
        found.setdefault(kind(answer), []).append(answer)
    return found


def substitutes(rng: random.Random, answer: str, text: str, pool: Sequence[str]) -> list[str]:
    """Other answers, none of which stands in the text or begins like another one; fewer where there are too few."""
    chosen: list[str] = []
    for other in rng.sample(pool, len(pool)):
        if other.lower() in text.lower() or any(a.startswith(b) for a, b in _pairs(other, [answer, *chosen])):
            continue
        chosen.append(other)
        if len(chosen) == CANDIDATES - 1:
            break
    return chosen


def _pairs(one: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    for other in others:
        yield one, other
        yield other, one


def counterfactual(
    setting: Setting, article: SquadArticle, asked: ArticleQuestion, pool: Sequence[str], seed: int
) -> TextExample | None:
    """The question with another answer; None where no substitutes are found or the tokens cannot tell them apart."""
    rng = random.Random(seed)
    said = [article.said(i).strip() for i in asked.sentences]
    answer, gold = asked.answers[0], asked.gold - asked.sentences.start
    others = substitutes(rng, answer, " ".join(said), pool)
    if len(others) < CANDIDATES - 1:
        return None
    said[gold] = said[gold].replace(answer, others[0])
    spans = list(pairwise(accumulate((len(sentence) + 1 for sentence in said), initial=0)))
    choices = [answer, *others]
    rng.shuffle(choices)
    tokenizer = plain(frozen(setting)[1])
    try:
        example = text_example(tokenizer, " ".join(said) + " ", asked.question, others[0], spans, choices)
        check_candidates(example.candidates, example.answer)
    except ValueError:  # a candidate that merges with the prompt, or begins like another one in tokens
        return None
    if len(example.blocks) != SENTENCES:
        return None
    return replace(example, family=frozenset({frozenset({gold})}))


@lru_cache(maxsize=2)
def counterfactuals(setting: Setting, data: Path, split: str, n: int) -> list[TextExample]:
    """The first ``n`` that can be made."""
    pools = answers_by_kind(data, split)
    found: list[TextExample] = []
    for i, (article, asked) in enumerate(questions(data, split)):
        if len(found) == n:
            break
        made = counterfactual(setting, article, asked, pools[kind(asked.answers[0])], seeds.STATISTICS.seed(RUN, i))
        if made:
            found.append(made)
    if len(found) < n:
        raise ValueError(
            f"counterfactual SQuAD: expected {n} questions with {SENTENCES} sentences and substitutes of their kind, "
            f"got {len(found)} from {FILES[split]}"
        )
    return found


__all__ = ["DEV", "SENTENCES", "TUNE", "counterfactual", "counterfactuals", "kind", "questions", "substitutes"]

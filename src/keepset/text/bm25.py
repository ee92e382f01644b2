"""Words in common: Okapi BM25 of a question with each of some texts. Needs no model."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

K1 = 1.5
"""How soon further occurrences of a word in a text stop counting."""
B = 0.75
"""How much a long text is discounted."""


def bm25(question: str, texts: Sequence[str]) -> list[float]:
    """One score per text, of the lower-cased words; rare words count more, where "rare" is among ``texts``."""
    documents = [_counted(text) for text in texts]
    lengths = [counts.total() for counts in documents]
    mean = max(sum(lengths) / max(len(lengths), 1), 1.0)
    scores = [0.0] * len(documents)
    for word in dict.fromkeys(words(question)):
        holding = sum(word in counts for counts in documents)
        weight = rarity(holding, len(documents))
        for i, counts in enumerate(documents):
            often = counts[word]
            scores[i] += weight * often * (K1 + 1) / (often + K1 * (1 - B + B * lengths[i] / mean))
    return scores


@lru_cache(maxsize=4_096)  # many questions are asked of the same texts
def _counted(text: str) -> Counter[str]:
    return Counter(words(text))


def rarity(holding: int, texts: int) -> float:
    """What a word weighs that ``holding`` of so many texts have."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())

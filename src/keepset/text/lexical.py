"""What can be said of a block without a model: its words, its heading, its place; and what it shares with a question.

heading     Data collection
block       We collect 1,200 tweets from Kenya.          words, place, length, digits, capitals
question    How many tweets are collected?               words in common (whole and first letters), neighbours', kind
"""

import math
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from keepset.text.bm25 import bm25, rarity, words

BUCKETS = 8_192
"""Words share weights where they fall into one bucket: 32 KB whatever the language."""
STEM = 5
"""First letters that make two words one: collect, collects, collection."""
HEADING_WORDS = 12
"""More words in a line are a sentence without a full stop."""
KINDS = (
    "who",
    "when",
    "where",
    "why",
    "which",
    "how many",
    "how much",
    "how",
    "what",
    "do",
    "does",
    "did",
    "is",
    "are",
)
"""Of questions; the first that begins one of its parts counts."""
COMMON = frozenset(
    words(
        "a an and are as at be been by can did do does for from had has have he her his how if in into is it its many "
        "much not of on or she so than that the their them then there these they this to was we were what when where "
        "which who whom whose why will with would you"
    )
)
"""Words that say nothing about what is asked for."""

PLACE_NUMBERS = 8
QUESTION_NUMBERS = 14 + len(KINDS)


@dataclass(frozen=True)
class Passage:
    """A block as a reader of words sees it."""

    text: str
    heading: str
    """The heading above it; empty where there is none."""
    place: float
    """Of the block in its document, from 0 to 1."""


def passages(text: str, blocks: Sequence[tuple[int, int]]) -> list[Passage]:
    """The blocks of a text with the last heading above each; ``blocks`` are character spans in order."""
    found: list[Passage] = []
    heading, read = "", 0
    for start, stop in blocks:
        for line in text[read:start].splitlines():
            heading = line.strip(" #*\t") if is_heading(line) else heading
        said = text[start:stop]
        found.append(Passage(said, heading, start / max(1, len(text))))
        if is_heading(said):
            heading = said.strip(" #*\t\n")
        read = stop
    return found


def is_heading(line: str) -> bool:
    """A short line without a stop at its end."""
    said = line.strip()
    return bool(said) and "\n" not in said and len(said.split()) <= HEADING_WORDS and said[-1] not in ".!?…:;,。！？"


def buckets(text: str) -> list[int]:
    """The bucket of every word."""
    return [zlib.crc32(word.encode()) % BUCKETS for word in words(text)]


def place_numbers(passage: Passage) -> list[float]:
    """What a block looks like, whatever is asked."""
    said = passage.text.split()
    n = max(1, len(said))
    return [
        math.log(n),
        passage.place,
        float(passage.place < 0.05),
        float(is_heading(passage.text)),
        sum(any(letter.isdigit() for letter in word) for word in said) / n,
        sum(word[:1].isupper() for word in said) / n,
        passage.text.count("(") / n,
        float(bool(passage.heading)),
    ]


def question_numbers(question: str, blocks: Sequence[Passage]) -> list[list[float]]:
    """Per block, what it shares with the question."""
    texts = [passage.text for passage in blocks]
    exact = bm25(question, texts)
    stems = [stemmed(text) for text in texts]
    asked = stemmed(question)
    stem_scores = bm25(" ".join(asked), [" ".join(found) for found in stems])
    weights = rarities(asked, stems)
    covered = [coverage(weights, set(found)) for found in stems]
    headings = {passage.heading: coverage(weights, set(stemmed(passage.heading))) for passage in blocks}
    pairs = set(pairwise(asked))
    kind = kind_of(question)
    known = set(words(question))
    top, stem_top = max(exact, default=0.0) or 1.0, max(stem_scores, default=0.0) or 1.0
    rows = []
    for i, passage in enumerate(blocks):
        said = passage.text.split()
        news = [word for word in said if word.strip("\"'(),.;:").lower() not in known]
        shared = pairs & set(pairwise(stems[i]))
        rows.append(
            [
                exact[i] / 10,
                exact[i] / top,
                stem_scores[i] / 10,
                stem_scores[i] / stem_top,
                covered[i],
                covered[i - 1] if i else 0.0,
                covered[i + 1] if i + 1 < len(blocks) else 0.0,
                headings[passage.heading],
                len(shared) / max(1, len(pairs)),
                math.log(max(1, len(said))),
                sum(any(letter.isdigit() for letter in word) for word in news) / 5,
                sum(word[:1].isupper() for word in news[1:]) / 5,
                float(exact[i] == top),
                float(is_heading(passage.text)),
                *(float(kind == name) for name in KINDS),
            ]
        )
    return rows


@lru_cache(maxsize=4_096)  # many questions are asked of the same sentences
def stemmed(text: str) -> tuple[str, ...]:
    """The first letters of every word that says something."""
    return tuple(word[:STEM] for word in words(text) if word not in COMMON)


def rarities(asked: Sequence[str], stems: Sequence[Sequence[str]]) -> dict[str, float]:
    """Word of the question -> how rare it is among the blocks."""
    holding = Counter(word for found in stems for word in set(found))
    return {word: rarity(holding[word], len(stems)) for word in asked}


def kind_of(question: str) -> str:
    """What is asked for: the first of ``KINDS`` among its words."""
    padded = f" {' '.join(words(question))} "
    found = [(padded.find(f" {kind} "), -len(kind), kind) for kind in KINDS if f" {kind} " in padded]
    return min(found)[2] if found else ""


def coverage(weights: dict[str, float], there: Collection[str]) -> float:
    """Of the weight of all words, the share of those that are there."""
    return sum(weight for word, weight in weights.items() if word in there) / (sum(weights.values()) or 1.0)

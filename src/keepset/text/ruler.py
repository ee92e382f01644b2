"""Long documents of RULER (Hsieh et al., 2024; Apache-2.0), from its templates.

single              1 needle in noise                     ask for its number
multikey            4 needles in noise                    ask for the number of one of the four keys
multikey_lines      every line a needle                   ask for the number of one of the keys
variable_tracking   a chain of 5 assignments in noise     ask for all variables that hold the value
"""

import string
from functools import cache
from itertools import pairwise

import numpy as np
from wonderwords import RandomWord  # type: ignore[import-untyped]

from keepset.text.document import NOISE, Asked, Count, Draft, Needle

KEYS = 4
"""Of ``multikey``: RULER's multikey_1."""
NUMBERS = (1_000_000, 10_000_000)
VALUES = (10_000, 100_000)
HOPS = 4
NAME_LETTERS = 5

NUMBER_INSTRUCTION = (
    "A special magic number is hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the number afterwards.\n"
)
CHAIN_INSTRUCTION = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"


def single(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """One of the special magic numbers for spicy-otter is: 4417302."""
    return _numbers(rng, 1)


def multikey(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """As ``single`` with four keys; any of them may be asked for."""
    return _numbers(rng, KEYS)


def multikey_lines(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """As many needles as there is room for, and nothing else: RULER's multikey_2. The last line is cut off."""
    shortest = count(_needle("a-a", NUMBERS[0]).line)
    keys, numbers = _draw(rng, length // shortest + 1)
    needles = list(map(_needle, keys, numbers))
    fit = int(np.searchsorted(np.cumsum([count(needle.line) for needle in needles]), length, side="right"))
    # Of one line too few there is room for a half one, of a needle that nobody asks for.
    return _draft(rng, keys[:fit], numbers[:fit], filler=needles[fit].line)


def variable_tracking(rng: np.random.Generator, length: int, count: Count) -> Draft:
    """VAR ABCDE = 12345, then VAR FGHIJ = VAR ABCDE, and so on: all of them hold 12345."""
    letters = list(string.ascii_uppercase)
    names: list[str] = []
    while len(names) <= HOPS:
        name = "".join(rng.choice(letters, NAME_LETTERS))
        if name not in names:
            names.append(name)
    value = int(rng.integers(*VALUES))
    facts = [f"{names[0]} = {value}", *(f"{name} = VAR {before}" for before, name in pairwise(names))]
    chain = [Needle(f"VAR {facts[0]}", facts[0]), *(Needle(f"VAR {fact} ", fact) for fact in facts[1:])]
    question = f"Question: Find all variables that are assigned the value {value} in the text above."
    # RULER's prefix ends with a space; here it begins the answer, because that is where tokenizers put it.
    opening = (
        " Answer: According to the chain(s) of variable assignment in the text above, "
        f"{len(names)} variables are assigned the value {value}, they are:"
    )
    asked = Asked(question, opening, tuple(names), tuple(range(len(names))))
    return Draft(CHAIN_INSTRUCTION, tuple(chain), (asked,), asked=0)


def _numbers(rng: np.random.Generator, n: int) -> Draft:
    keys, numbers = _draw(rng, n)
    return _draft(rng, keys, numbers)


def _draw(rng: np.random.Generator, n: int) -> tuple[list[str], list[int]]:
    """``n`` keys and numbers, none twice."""
    adjectives, nouns = _words()
    pairs = rng.choice(len(adjectives) * len(nouns), n, replace=False).tolist()
    keys = [f"{adjectives[pair // len(nouns)]}-{nouns[pair % len(nouns)]}" for pair in pairs]
    low, high = NUMBERS
    return keys, (low + rng.choice(high - low, n, replace=False)).tolist()


def _draft(rng: np.random.Generator, keys: list[str], numbers: list[int], filler: str = NOISE) -> Draft:
    asked = tuple(
        Asked(
            f"What is the special magic number for {key} mentioned in the provided text?",
            f" The special magic number for {key} mentioned in the provided text is",
            (str(number),),
            (i,),
        )
        for i, (key, number) in enumerate(zip(keys, numbers, strict=True))
    )
    needles = tuple(map(_needle, keys, numbers))
    return Draft(NUMBER_INSTRUCTION, needles, asked, int(rng.integers(len(keys))), filler)


def _needle(key: str, number: int) -> Needle:
    fact = f"{key} is: {number}"
    return Needle(f"One of the special magic numbers for {fact}.", fact)


@cache
def _words() -> tuple[list[str], list[str]]:
    """Adjectives and nouns of one word each."""
    found = RandomWord()
    adjectives, nouns = (
        sorted(found.filter(include_categories=[kind], regex="[a-z]+")) for kind in ("adjectives", "nouns")
    )
    return adjectives, nouns

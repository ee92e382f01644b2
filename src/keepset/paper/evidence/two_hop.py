"""Answers that need two sentences: who holds an office, and where that person lives.

0   The harbour master of Skelvik is Ida Moen.                    <- who
1   Jon Aas lives in the mill above the falls.
2   The organist of Tresvik is Jon Aas.
3   Ida Moen lives in the house by the old pier.                  <- where
...
Where does the harbour master of Skelvik live?                    in the house by the old pier

Every person of a document has an office and a home, in sentences of the same form, so that neither sentence gives the
answer away: without the first the question points at nobody, without the second the home is unknown.
"""

import random
from dataclasses import dataclass

from keepset.blocks import KeepSet

PEOPLE = 5
"""Of one document; each has two sentences."""
FIRST_NAMES = ("Ida", "Jon", "Marta", "Peter", "Ruth", "Oskar", "Lena", "Emil", "Clara", "Hugo", "Nora", "Anton")
LAST_NAMES = ("Moen", "Aas", "Keller", "Lindqvist", "Barrow", "Petrov", "Duval", "Hansen", "Okafor", "Silva", "Marsh")
TOWNS = ("Skelvik", "Tresvik", "Aldermoor", "Brenby", "Castorp", "Dunhollow", "Elmsford", "Farrow", "Glenmark", "Holt")
OFFICES = (
    "harbour master",
    "organist",
    "librarian",
    "mayor",
    "postmaster",
    "schoolteacher",
    "lighthouse keeper",
    "doctor",
    "baker",
    "ferryman",
)
HOMES = (
    "in the house by the old pier",
    "in the mill above the falls",
    "in a flat over the bakery",
    "on a boat in the canal",
    "in the cottage behind the church",
    "at the inn on the market square",
    "in the tower of the castle",
    "on a farm near the railway",
    "in the villa on the hill",
    "in the hut at the edge of the forest",
)
WHO = ("The {office} of {town} is {person}.", "{person} is the {office} of {town}.")
WHERE = ("{person} lives {home}.", "{person} has lived {home} for years.", "These days {person} lives {home}.")


@dataclass(frozen=True)
class TwoHop:
    """One document and its question."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    gold: KeepSet
    """Both sentences of the person asked about."""


def two_hop_document(rng: random.Random) -> TwoHop:
    """Ten sentences in random order."""
    columns = (FIRST_NAMES, LAST_NAMES, TOWNS, OFFICES, HOMES)
    drawn = [rng.sample(column, PEOPLE) for column in columns]
    said = []
    for i, (first, last, town, office, home) in enumerate(zip(*drawn, strict=True)):
        words = {"person": f"{first} {last}", "town": town, "office": office, "home": home}
        said += [(i, rng.choice(forms).format(**words)) for forms in (WHO, WHERE)]
    rng.shuffle(said)
    *_, (town, *_), (office, *_), (home, *_) = drawn
    return TwoHop(
        sentences=tuple(sentence for _, sentence in said),
        question=f"Where does the {office} of {town} live?",
        answer=home[:1].upper() + home[1:],
        gold=frozenset(number for number, (person, _) in enumerate(said) if person == 0),
    )

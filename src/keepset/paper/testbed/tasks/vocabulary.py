"""The token ids of the synthetic tasks.

id      0       1      2      3    4 ...      ...       ...      ...
token   FILLER  WRITE  QUERY  ALL  families   members   values   counts 1 to 5
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from keepset.files import Frozen

FILLER = 0
WRITE = 1
QUERY = 2
ALL = 3
"""Stands at the member position of an aggregation query: *all* records of the family."""

SPECIALS = 4
MAX_COUNT = 5
"""Aggregation answers are counts from 1 to 5, so a constant answer scores 0.2."""

Ids = np.ndarray
"""An integer array of token ids or key numbers."""


class Vocabulary(Frozen):
    """Sizes of the key and value spaces; every token id follows from them."""

    families: Annotated[int, Field(ge=2)]
    """How many family tokens (first half of a key)."""
    members: Annotated[int, Field(ge=2)]
    """How many member tokens (second half of a key)."""
    values: Annotated[int, Field(ge=2)]
    """How many value tokens."""

    @property
    def keys(self) -> int:
        return self.families * self.members

    @property
    def size(self) -> int:
        return SPECIALS + self.families + self.members + self.values + MAX_COUNT

    def family_token(self, key: Ids) -> Ids:
        return SPECIALS + key // self.members

    def member_token(self, key: Ids) -> Ids:
        return SPECIALS + self.families + key % self.members

    def value_token(self, value: Ids) -> Ids:
        return SPECIALS + self.families + self.members + value

    def count_token(self, count: Ids) -> Ids:
        return SPECIALS + self.families + self.members + self.values + count - 1

    def name(self, token: int) -> str:
        """A token as a person reads it: ``f3``, ``m0``, ``v12``, ``#4``, ``WRITE``."""
        if not 0 <= token < self.size:
            raise ValueError(f"token id must be in [0, {self.size}), got {token}")
        if token < SPECIALS:
            return ("·", "WRITE", "QUERY", "ALL")[token]
        token -= SPECIALS
        for letter, size in (("f", self.families), ("m", self.members), ("v", self.values)):
            if token < size:
                return f"{letter}{token}"
            token -= size
        return f"#{token + 1}"

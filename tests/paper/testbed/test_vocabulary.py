"""Token ids and their names."""

import numpy as np
import pytest
from pydantic import ValidationError

from keepset.paper.testbed.tasks import Vocabulary

VOCABULARY = Vocabulary(families=3, members=2, values=4)


def names(tokens: np.ndarray) -> list[str]:
    return [VOCABULARY.name(int(token)) for token in tokens]


def test_every_token_has_one_name() -> None:
    shown = " ".join(VOCABULARY.name(token) for token in range(VOCABULARY.size))
    assert shown == "· WRITE QUERY ALL f0 f1 f2 m0 m1 v0 v1 v2 v3 #1 #2 #3 #4 #5"


def test_keys_values_and_counts_become_the_tokens_of_their_names() -> None:
    keys = np.arange(VOCABULARY.keys)
    halves = zip(names(VOCABULARY.family_token(keys)), names(VOCABULARY.member_token(keys)), strict=True)
    assert list(halves) == [(f"f{f}", f"m{m}") for f in range(3) for m in range(2)]
    assert names(VOCABULARY.value_token(np.arange(4))) == ["v0", "v1", "v2", "v3"]
    assert names(VOCABULARY.count_token(np.arange(1, 6))) == ["#1", "#2", "#3", "#4", "#5"]


@pytest.mark.parametrize("token", [-1, VOCABULARY.size])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(ValueError, match=rf"token id must be in \[0, 18\), got {token}"):
        VOCABULARY.name(token)


def test_one_family_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"families\n.*greater than or equal to 2"):
        Vocabulary(families=1, members=2, values=4)

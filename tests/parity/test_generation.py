"""All executors write the same continuations, those of transformers; a guess only makes them sooner."""

import pytest
import torch
from transformers import PreTrainedModel

from keepset.interventions import Ask, Fast, Reference
from tests.parity.subject import (
    EXAMPLES,
    RAGGED,
    VOCABULARY,
    build,
    every_ask,
    keep_sets,
)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_greedy_continuations_agree_and_are_those_of_transformers(name: str) -> None:
    model = build(name)
    asks = every_ask(EXAMPLES)
    found = Fast(model, max_tokens=100).generate(asks, max_new_tokens=5)
    assert found == Reference(model).generate(asks, max_new_tokens=5)
    clean = found[len(list(keep_sets(RAGGED))) - 1][0]
    # transformers' own loop: gaps and windows do not arise, nothing is hidden
    tokens = RAGGED.tokens[None]
    for _ in range(5):
        with torch.no_grad():
            tokens = torch.cat([tokens, model(tokens, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    assert clean == tuple(tokens[0, -5:].tolist())


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_a_guess_changes_nothing_but_the_number_of_forwards(name: str) -> None:
    model = build(name)
    asks = [Ask(RAGGED, frozenset(keep), ((5,),)) for keep in ((0, 1, 2, 3), (0, 2), (1,))]
    alone = [Fast(model).generate([ask], 6) for ask in asks]
    for ask, ((written,),) in zip(asks, alone, strict=True):
        for right in (0, 2, 5, 6):
            guess = (*written[:right], *((token + 1) % VOCABULARY for token in written[right:]), 3, 4)
            executor = Fast(model)
            assert executor.generate([ask], 6, guess=guess) == [[written]]
            assert executor.cost.forwards == 6 - min(right, 5)
            until = written[: written.index(written[1])]
            assert executor.generate([ask], 6, frozenset({written[1]}), guess) == [[until]]
        assert Fast(model).generate(asks, 6, guess=written) == [found for (found,) in alone]
        assert Reference(model).generate([ask], 6, guess=written) == [[written]]


def test_generation_ends_before_the_first_stop_token(llama: PreTrainedModel) -> None:
    ask = Ask(RAGGED, frozenset({0, 2}), ((5,),))
    ((whole,),) = Fast(llama).generate([ask], 5)
    stop = frozenset({whole[2]})
    expected = whole[: whole.index(whole[2])]
    assert Fast(llama).generate([ask], 5, stop) == Reference(llama).generate([ask], 5, stop) == [[expected]]

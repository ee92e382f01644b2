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
def test_a_guess_changes_nothing_but_the_number_of_forwards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepset.interventions.executors.lookup.GUESSES", 0)
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


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("keep", [(0, 1, 2, 3), (0, 2), ()])
def test_what_is_looked_up_changes_nothing_but_the_number_of_forwards(
    name: str, keep: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ask = build(name), Ask(RAGGED, frozenset(keep), ((5,),))
    expected = Reference(model).generate([ask], 12)
    ((written,),) = expected
    executor = Fast(model)
    assert executor.generate([ask], 12) == expected
    for found in (written[1:5], (*written[1:3], (written[3] + 1) % VOCABULARY), ((written[1] + 1) % VOCABULARY,)):
        executor = Fast(model)
        guesses = iter([found])
        monkeypatch.setattr(
            "keepset.interventions.executors.fast.looked_up", lambda tokens, most, g=guesses: next(g, ())[:most]
        )
        assert executor.generate([ask], 12) == expected
        right = sum(a == b for a, b in zip(found, written[1:], strict=False))
        assert executor.cost.forwards == 12 - right, "each guess that is right saves a forward"
        assert executor.cost.tokens - len(RAGGED.tokens) <= 12 + len(found)


def test_generation_ends_before_the_first_stop_token(llama: PreTrainedModel) -> None:
    ask = Ask(RAGGED, frozenset({0, 2}), ((5,),))
    ((whole,),) = Fast(llama).generate([ask], 5)
    stop = frozenset({whole[2]})
    expected = whole[: whole.index(whole[2])]
    assert Fast(llama).generate([ask], 5, stop) == Reference(llama).generate([ask], 5, stop) == [[expected]]

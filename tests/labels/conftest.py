"""Effects without a model: a rule says what each keep set does to the answer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import Example, KeepSet, Span
from keepset.interventions import Effects, Effort, Executor, GoldToken, Score
from keepset.models.bundled import fetched
from keepset.models.loading import load_model

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

Rule = Callable[[int, KeepSet], float]
"""Example number, keep set -> log-probability of the answer; above ``GIVEN`` it is given."""
GIVEN = -1.0


class NoModel:
    """Stands where the executor would."""

    max_tokens = 10_000

    def check(self, ask: object) -> None:
        pass

    @contextmanager
    def hold(self, examples: Sequence[Example]) -> Iterator[None]:
        yield


class Ruled(GoldToken):
    """Scores by a rule; examples are told apart by their first token."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        object.__setattr__(self, "rule", rule)

    def score(self, executor: Executor, pairs: Sequence[tuple[Example, KeepSet]]) -> list[Score]:
        rule = cast(Rule, getattr(self, "rule"))  # noqa: B009
        values = [rule(int(example.tokens[0]), keep) for example, keep in pairs]
        return [Score(value, value > GIVEN) for value in values]


def ruled_effects(
    counts: Sequence[int],
    rule: Rule,
    effort: Effort = "exact",
    families: Sequence[frozenset[KeepSet]] | None = None,
) -> Effects:
    """Effects of examples with ``counts`` blocks of one token each."""
    examples = [
        Example(
            tokens=torch.tensor([i] * n + [7]),
            blocks=tuple(Span(block, block + 1) for block in range(n)),
            query=Span(n, n + 1),
            answer=(1,),
            family=families[i] if families else None,
        )
        for i, n in enumerate(counts)
    ]
    return Effects(examples, cast(Executor, NoModel()), Ruled(rule), effort=effort)


@pytest.fixture(name="ruled_effects")
def ruled_effects_fixture() -> Callable[..., Effects]:
    return ruled_effects


@pytest.fixture(scope="session")
def smollm2() -> Loaded:
    """The bundled default, where it has been fetched."""
    if fetched("smollm2-135m-instruct") is None:
        pytest.skip("smollm2-135m-instruct is not fetched on this machine")
    return load_model("smollm2-135m-instruct")

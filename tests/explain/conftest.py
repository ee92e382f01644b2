"""One tiny model and tokenizer; what the model writes and when it answers can be decided by a test."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.blocks import KeepSet
from keepset.explain import explanation
from keepset.explain.answer import Writer
from keepset.labels.worth import Answer
from tests.explain.subject import Rule
from tests.tiny import tiny_llama
from tests.tokenizers import byte_tokenizer


@pytest.fixture(scope="session")
def model() -> PreTrainedModel:
    return tiny_llama()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return byte_tokenizer()


@pytest.fixture
def answer_when(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rule], None]:
    """Decides by the keep set alone whether the answer is given; nothing is read."""

    def use(rule: Rule) -> None:
        class Ruled(Answer):
            def _ask(self, keeps: list[KeepSet], tokens: tuple[int, ...], into: dict[KeepSet, Tensor]) -> None:  # type: ignore[override]
                for keep in keeps:
                    said = torch.full((len(tokens),), -0.5 if rule(keep) else -3.0)
                    into[keep] = torch.cat([torch.full((len(self.lead),), -1.0), said])

        monkeypatch.setattr(explanation, "Answer", Ruled)

    return use


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch, tokenizer: PreTrainedTokenizerBase) -> Callable[[str], None]:
    """Decides what the model writes."""

    def use(text: str) -> None:
        tokens = tuple(tokenizer(text)["input_ids"])
        monkeypatch.setattr(Writer, "tokens", lambda self, keep, most, guess=(): tokens[:most])

    return use

"""Texts of any length through the first layers: windows, a sink, and several short texts at once."""

import pytest
import torch

from keepset.paper.bench.models import tiny_model
from keepset.routers.features import hidden_after
from keepset.routers.reading import LEAD, WINDOW, read_short, read_states, sink_token

MODEL, TOKENIZER = tiny_model()
SINK = sink_token(TOKENIZER)


def random_tokens(n: int) -> list[int]:
    return torch.randint(2, 260, (n,), generator=torch.Generator().manual_seed(n)).tolist()


def test_a_short_text_is_read_in_one_go_behind_the_sink() -> None:
    tokens = random_tokens(20)
    with torch.no_grad():
        expected = hidden_after(MODEL, torch.tensor([[SINK, *tokens]]), 1)[0, 1:]
    torch.testing.assert_close(read_states(MODEL, tokens, 1, SINK), expected)


def test_a_later_window_reads_the_end_of_the_one_before() -> None:
    tokens = random_tokens(WINDOW + 50)
    states = read_states(MODEL, tokens, 1, SINK)
    assert states.shape == (len(tokens), MODEL.config.hidden_size)
    with torch.no_grad():
        expected = hidden_after(MODEL, torch.tensor([[SINK, *tokens[WINDOW - LEAD :]]]), 1)[0, 1 + LEAD :]
    torch.testing.assert_close(states[WINDOW:], expected)


def test_short_texts_together_are_read_as_alone() -> None:
    texts = [random_tokens(n) for n in (3, 17, 9)]
    for states, tokens in zip(read_short(MODEL, texts, 1, SINK), texts, strict=True):
        torch.testing.assert_close(states, read_states(MODEL, tokens, 1, SINK), rtol=1e-4, atol=1e-5)


def test_nothing_to_read_is_one_clear_line() -> None:
    with pytest.raises(ValueError, match="tokens: expected at least one to read"):
        read_states(MODEL, [], 1, SINK)


def test_a_tokenizer_without_a_beginning_or_an_end_is_refused() -> None:
    class Bare:
        bos_token_id = None
        eos_token_id = None

    with pytest.raises(ValueError, match="Bare: expected a token that begins or ends a text"):
        sink_token(Bare())  # type: ignore[arg-type]

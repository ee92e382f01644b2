"""The text router: what it adds up, late interaction the slow way, and saving."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cosine_similarity, softplus

from keepset.blocks import Span
from keepset.routers.text import MATCHES_SCALE, TextRouter, load_text_router, question_features, text_features
from keepset.text.lexical import passages
from keepset.text.split import split_blocks
from tests.tiny_compressor import TEXT, tiny_router

PLACES = split_blocks(TEXT, "sentence")
SAID = passages(TEXT, PLACES)
SPANS = tuple(Span(3 * i, 3 * i + 3) for i in range(len(PLACES)))
STATES = torch.randn(3 * len(PLACES), 64, generator=torch.Generator().manual_seed(0))
ASKED = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
QUESTION = "Who ran the pier?"


def shaken() -> TextRouter:
    """No part of it is zero."""
    router = TextRouter(tiny_router().reads, 1, "sentence", 0.5, 0.1).eval()
    with torch.no_grad():
        for i, parameter in enumerate(router.parameters()):
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))
    return router


def test_blocks_are_pooled_by_mean_and_maximum() -> None:
    features = text_features(STATES, SPANS, SAID)
    torch.testing.assert_close(features.pooled[1, :64], STATES[3:6].mean(0))
    torch.testing.assert_close(features.pooled[1, 64:], STATES[3:6].amax(0))
    assert features.block_of.tolist() == [i for i in range(len(SPANS)) for _ in range(3)]


@torch.no_grad()
def test_late_interaction_is_the_best_match_of_every_token_of_the_question() -> None:
    router = shaken()
    text, asked = text_features(STATES, SPANS, SAID), question_features(ASKED, QUESTION, SAID)
    weights = softplus(router.matters(ASKED)).flatten()
    matched = []
    for span in SPANS:
        best = [
            max(
                float(cosine_similarity(router.match(token), router.match(STATES[i]), dim=0))
                for i in range(span.start, span.stop)
            )
            for token in ASKED
        ]
        matched.append(float((torch.tensor(best) * weights).sum() / weights.sum()))
    near = torch.tensor(matched)
    ahead = near - near.mean()
    x = torch.cat([asked.numbers, MATCHES_SCALE * torch.stack([near, ahead], -1)], -1)
    expected = (router.lexical(asked.numbers) + router.seen(x)).squeeze(-1)
    torch.testing.assert_close(router.answering(text, asked), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_words_headings_and_places_count_without_a_reader() -> None:
    router = shaken()
    text = text_features(STATES, SPANS, SAID)
    other = text_features(STATES.flip(0), SPANS, SAID)
    assert torch.equal(router.said(text), router.said(other))
    assert not torch.allclose(router(text), router(other))


def test_a_router_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    router = shaken()
    router.save_pretrained(tmp_path / "router")
    again = load_text_router(tmp_path / "router")
    features = text_features(STATES, SPANS, SAID)
    assert torch.equal(router(features), again(features))
    assert (again.length_power, again.question_length_power, again.blocks) == (0.5, 0.1, "sentence")
    assert again.reads == router.reads


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    shaken().save_pretrained(tmp_path / "router")
    path = tmp_path / "router" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(ValueError, match="is damaged"):
        load_text_router(tmp_path / "router")

"""Both modes are what they say, on tokens: the mask operator, and hiding from the question's rows alone."""

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from keepset.blocks import Example, Span
from keepset.interventions import Ask, Fast, answer_logits
from keepset.pruning import generate, kept_positions, prefill_kept, read_after
from keepset.pruning.cache import EvictionMode, generate_each, read_after_each
from tests.tiny import SHAPE as TINY

SHAPE = TINY | {"vocab_size": 40}
MODELS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "llama eager": LlamaConfig(**SHAPE, attn_implementation="eager"),
    "mistral window": MistralConfig(**SHAPE, sliding_window=7),
    "gemma3": Gemma3TextConfig(**SHAPE, sliding_window=7, layer_types=["sliding_attention", "full_attention"]),
    "gpt2": GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3),
}
T, Q = 24, 4
BLOCKS = (Span(1, 5), Span(5, 9), Span(11, 16), Span(16, 23))
KEEP = frozenset({0, 2})
MODES: tuple[EvictionMode, ...] = ("global", "post_prefill")


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return AutoModelForCausalLM.from_config(MODELS[request.param]).eval()


@pytest.fixture(scope="module")
def tokens() -> Tensor:
    return torch.randint(40, (T,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def question() -> Tensor:
    return torch.randint(40, (Q,), generator=torch.Generator().manual_seed(1))


def expected_logits(model: PreTrainedModel, tokens: Tensor, question: Tensor, mode: str) -> Tensor:
    """(Q, V) by masking: one forward of everything per question row."""
    rows = []
    for n in range(1, len(question) + 1):
        visible = torch.ones(1, len(tokens) + n, len(BLOCKS), dtype=torch.bool)
        hidden = [i for i in range(len(BLOCKS)) if i not in KEEP]
        visible[:, 0 if mode == "global" else len(tokens) :, hidden] = False
        rows.append(answer_logits(model, torch.cat([tokens, question[:n]])[None], BLOCKS, visible))
    return torch.cat(rows)


@pytest.mark.parametrize("mode", MODES)
def test_a_question_reads_what_masking_would_let_it_read(
    model: PreTrainedModel, tokens: Tensor, question: Tensor, mode: EvictionMode
) -> None:
    (cache,) = prefill_kept(model, [(tokens, kept_positions(T, BLOCKS, KEEP))], mode)
    found, grown = read_after(model, cache, question, rows=Q)
    torch.testing.assert_close(found, expected_logits(model, tokens, question, mode), rtol=1e-4, atol=1e-4)
    assert len(cache.positions) == T - 4 - 7
    assert len(grown.positions) == len(cache.positions) + Q
    assert grown.n_tokens == T + Q


def test_the_modes_are_different_functions(model: PreTrainedModel, tokens: Tensor, question: Tensor) -> None:
    one, other = (expected_logits(model, tokens, question, mode) for mode in MODES)
    assert not torch.allclose(one, other, atol=1e-2)


@pytest.mark.parametrize("mode", MODES)
def test_batched_equals_single(model: PreTrainedModel, tokens: Tensor, question: Tensor, mode: EvictionMode) -> None:
    documents = [
        (tokens, kept_positions(T, BLOCKS, KEEP)),
        (tokens.flip(0)[:13], torch.arange(13)),
        (tokens.roll(5), kept_positions(T, BLOCKS, frozenset({3}))),
    ]
    for cache, document in zip(prefill_kept(model, documents, mode), documents, strict=True):
        (single,) = prefill_kept(model, [document], mode)
        assert torch.equal(cache.positions, single.positions)
        assert cache.n_bytes == single.n_bytes == len(cache.positions) * cache.bytes_per_token
        found = [read_after(model, each, question, rows=Q)[0] for each in (cache, single)]
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_generating_equals_the_executor_that_labels(model: PreTrainedModel, tokens: Tensor, question: Tensor) -> None:
    example = Example(torch.cat([tokens, question]), BLOCKS, Span(T, T + Q), (1,))
    ((expected,),) = Fast(model).generate([Ask(example, KEEP, ((1,),))], max_new_tokens=6)
    (cache,) = prefill_kept(model, [(tokens, kept_positions(T, BLOCKS, KEEP))], "global")
    before = [part.clone() for part in cache.tensors]
    assert generate(model, cache, question, 6, frozenset()) == expected
    assert generate(model, cache, question, 6, frozenset({expected[2]})) == expected[: expected.index(expected[2])]
    assert all(torch.equal(one, other) for one, other in zip(cache.tensors, before, strict=True))


def test_many_caches_are_read_as_each_alone(model: PreTrainedModel, tokens: Tensor, question: Tensor) -> None:
    positions = [kept_positions(T, BLOCKS, keep) for keep in (KEEP, KEEP)] + [torch.arange(T - 4 - 7)]
    caches = prefill_kept(model, [(tokens, each) for each in positions], "global")
    together = read_after_each(model, caches, question, rows=3)
    alone = torch.stack([read_after(model, cache, question, rows=3)[0] for cache in caches])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    written = generate_each(model, caches, question, 6, frozenset())
    assert written == [generate(model, cache, question, 6, frozenset()) for cache in caches]
    stop = frozenset({written[0][2]})
    stopped = generate_each(model, caches, question, 6, stop)
    assert stopped == [generate(model, cache, question, 6, stop) for cache in caches]
    assert len(stopped[0]) < 3
    (shorter,) = prefill_kept(model, [(tokens, torch.arange(3))], "global")
    with pytest.raises(ValueError, match="caches: expected at least one, all with as many slots"):
        read_after_each(model, [caches[0], shorter], question, rows=1)


def test_positions_run_out_after_the_whole_document(model: PreTrainedModel, tokens: Tensor) -> None:
    (cache,) = prefill_kept(model, [(tokens, kept_positions(T, BLOCKS, KEEP))], "global")
    room = 64 - T
    assert len(generate(model, cache, tokens[:4], room - 3, frozenset())) == room - 3
    with pytest.raises(ValueError, match=f"positions: expected at most 64 .* a document of {T} tokens and 41 after"):
        generate(model, cache, tokens[:4], room - 2, frozenset())
    with pytest.raises(ValueError, match="max_new_tokens: expected at least 1"):
        generate(model, cache, tokens[:4], 0, frozenset())

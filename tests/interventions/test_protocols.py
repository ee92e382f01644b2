"""Masks that differ by row and layer: one code path, and the row form is the global one when rows agree."""

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from keepset.blocks import Example, Span
from keepset.interventions import Ask, Fast, answer_logits, dense_prefill, per_layer_masks
from keepset.models.masks import block_numbers, may_read
from tests.tiny import SHAPE as TINY

SHAPE = TINY | {"vocab_size": 30}
BLOCKS = (Span(1, 4), Span(4, 7), Span(8, 12))
B, T, N, L = 2, 15, 3, 2


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        if request.param == "llama":
            return LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
        kinds = ["sliding_attention", "full_attention"]
        return Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, sliding_window=5, layer_types=kinds)).eval()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.randint(30, (B, T), generator=torch.Generator().manual_seed(0))


KEEP = torch.tensor([[True, False, True], [False, True, False]])


def test_the_row_form_gives_the_logits_of_the_global_form(model: PreTrainedModel, tokens: torch.Tensor) -> None:
    everywhere = answer_logits(model, tokens, BLOCKS, KEEP[:, None])
    by_row = answer_logits(model, tokens, BLOCKS, KEEP[:, None].expand(B, T, N))
    by_layer = answer_logits(model, tokens, BLOCKS, KEEP[None, :, None].expand(L, B, T, N))
    assert torch.equal(everywhere, by_row)
    assert torch.equal(everywhere, by_layer)


def test_the_global_form_gives_the_numbers_of_the_executors(model: PreTrainedModel, tokens: torch.Tensor) -> None:
    logits = answer_logits(model, tokens, BLOCKS, KEEP[:, None]).log_softmax(-1)
    executor = Fast(model)
    for i, keep in enumerate(KEEP):
        example = Example(tokens[i], BLOCKS, Span(12, T), (5,))
        ((reading,),) = executor.read([Ask(example, frozenset(keep.nonzero().flatten().tolist()), ((5,),))])
        assert reading.log_probs[0][0] == pytest.approx(float(logits[i, 5]), abs=1e-4)


def test_dense_prefill_restricts_only_the_answer_row(model: PreTrainedModel, tokens: torch.Tensor) -> None:
    visible = dense_prefill(KEEP, T)
    assert visible[:, :-1].all()
    assert torch.equal(visible[:, -1], KEEP)
    sparse = answer_logits(model, tokens, BLOCKS, visible)
    dense = answer_logits(model, tokens, BLOCKS, torch.ones(B, 1, N, dtype=torch.bool))
    alone = answer_logits(model, tokens, BLOCKS, KEEP[:, None])
    assert not torch.allclose(sparse, dense, atol=1e-3)
    assert not torch.allclose(sparse, alone, atol=1e-3)


def test_each_layer_gets_its_own_mask(model: PreTrainedModel, tokens: torch.Tensor) -> None:
    everything = torch.ones(B, T, N, dtype=torch.bool)
    nothing = torch.zeros(B, T, N, dtype=torch.bool)
    found = [
        answer_logits(model, tokens, BLOCKS, torch.stack(tables))
        for tables in ([everything] * 2, [nothing, everything], [everything, nothing], [nothing] * 2)
    ]
    for i in range(4):
        for j in range(i):
            assert not torch.allclose(found[i], found[j], atol=1e-3)


def test_the_models_attention_is_put_back_also_after_an_error(model: PreTrainedModel) -> None:
    name = model.config._attn_implementation
    before = ALL_ATTENTION_FUNCTIONS.get(name)

    def fails_inside() -> None:
        with per_layer_masks(model, []):
            assert ALL_ATTENTION_FUNCTIONS.get(name) is not before
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails_inside()
    assert ALL_ATTENTION_FUNCTIONS.get(name) is before
    assert model.config._attn_implementation == name


def test_eager_attention_takes_per_layer_masks_too(tokens: torch.Tensor) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        eager = LlamaForCausalLM(LlamaConfig(**SHAPE, attn_implementation="eager")).eval()
    everywhere = answer_logits(eager, tokens, BLOCKS, KEEP[:, None])
    by_layer = answer_logits(eager, tokens, BLOCKS, KEEP[None, :, None].expand(L, B, T, N))
    assert torch.equal(everywhere, by_layer)


@pytest.mark.parametrize("shape", [(B, N), (B, T + 1, N), (L + 1, B, T, N), (B, T, N + 1)])
def test_a_table_of_the_wrong_shape_is_refused(model: PreTrainedModel, tokens: torch.Tensor, shape: tuple[int]) -> None:
    with pytest.raises(ValueError, match="visible: expected"):
        answer_logits(model, tokens, BLOCKS, torch.ones(shape, dtype=torch.bool))


def test_who_may_read_whom() -> None:
    numbers = block_numbers((Span(1, 3), Span(3, 4)), 5)
    assert numbers.tolist() == [-1, 0, 0, 1, -1]
    # Block 0 is hidden: it still reads itself, and nobody after it reads it.
    assert may_read(numbers, torch.tensor([[False, True]])).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 1],
    ]

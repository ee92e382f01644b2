"""The answer row's attention equals what transformers reports, and the model is left as it was."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from keepset.blocks import Span
from keepset.models.attention import Attention, wrapped_attention
from keepset.readouts import answer_attention

SHAPE = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
BLOCKS = (Span(2, 6), Span(6, 7), Span(9, 14))


def tiny(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=0.3)).eval()
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, initializer_range=0.3)).eval()


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_equals_the_attention_transformers_reports(family: str) -> None:
    model = tiny(family)
    tokens = torch.randint(50, (2, 17), generator=torch.Generator().manual_seed(1))
    found = answer_attention(model, tokens, BLOCKS)
    model.set_attn_implementation("eager")
    whole = torch.stack(model(tokens, output_attentions=True).attentions, dim=1)[..., -1, :]  # (B, L, H, T)
    expected = torch.stack([whole[..., span.start : span.stop].sum(-1) for span in BLOCKS], dim=-1)
    assert found.shape == (2, 3, 4, 3)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_model_is_left_as_it_was_also_after_a_failure() -> None:
    model = tiny("llama")
    before = model.config._attn_implementation
    tokens = torch.zeros(1, 17, dtype=torch.long)

    def fail(*args: object, **kwargs: object) -> Attention:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"), wrapped_attention(model, fail):
        model(tokens)
    assert model.config._attn_implementation == before
    assert model(tokens).logits.isfinite().all()

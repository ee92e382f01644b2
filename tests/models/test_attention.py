"""The way into a model's attention changes nothing by itself."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from keepset.models.attention import Attention, AttentionCall, wrapped_attention


def test_handing_on_changes_nothing_and_sees_every_layer() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2
    )
    model = LlamaForCausalLM(config).eval()
    tokens = torch.arange(12)[None]
    seen: list[int] = []

    def look(call: AttentionCall) -> Attention:
        seen.append(int(call.module.layer_idx))  # type: ignore[arg-type]
        return call.attend()

    expected = model(tokens).logits
    with wrapped_attention(model, look):
        found = model(tokens).logits
    assert seen == [0, 1, 2]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert torch.equal(model(tokens).logits, expected)

"""What every readout asks of its input, and that it computes the attention of the layer and no other."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    PreTrainedModel,
)

from keepset.blocks import Example, Span
from keepset.readouts import READOUTS as NAMED
from keepset.readouts import accumulated_attention, answer_attention, layers

FURTHER: dict[str, Callable[[Tensor], Tensor | Span]] = {
    "window": lambda tokens: Span(0, 1),
    "reconstruction": lambda tokens: Span(0, 1),
    "saliency": lambda tokens: torch.zeros(len(tokens), 1).long(),
}
"""What a readout takes besides model, tokens and blocks."""


def plain(name: str) -> Callable[..., Tensor]:
    further = FURTHER.get(name)
    return lambda model, tokens, blocks: NAMED[name](model, tokens, blocks, *([further(tokens)] if further else []))


READOUTS = {name: plain(name) for name in NAMED}


@pytest.mark.parametrize("readout", READOUTS)
class TestEveryReadout:
    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            (torch.zeros(17).long(), r"tokens: expected whole numbers \(B, T\).*pass example.tokens\[None\]"),
            (torch.zeros(1, 17), "tokens: expected whole numbers"),
            (torch.full((1, 17), 50), r"tokens: expected ids in \[0, 50\), got 50 to 50; use the model's own"),
            (torch.zeros(1, 33).long(), "tokens: expected at most 32 .* got 33"),
            (torch.zeros(1, 12).long(), "blocks: expected to end within the 12 tokens, got stop 14"),
        ],
    )
    def test_refuses_bad_tokens(
        self, readout: str, model: PreTrainedModel, example: Example, tokens: Tensor, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            READOUTS[readout](model, tokens, example.blocks)

    @pytest.mark.parametrize(
        ("blocks", "message"),
        [
            ((), "blocks: expected at least one span, got none"),
            ((Span(2, 2),), r"block 0: expected a non-empty span, got \[2, 2\)"),
            ((Span(2, 6), Span(5, 8)), r"block 1: expected to start at 6 or later"),
        ],
    )
    def test_refuses_bad_blocks(
        self, readout: str, model: PreTrainedModel, tokens: Tensor, blocks: tuple[Span, ...], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            READOUTS[readout](model, tokens, blocks)

    def test_refuses_training_mode(self, readout: str, model: PreTrainedModel, tokens: Tensor) -> None:
        with pytest.raises(ValueError, match=r"expected evaluation mode, got training mode; call model.eval\(\)"):
            READOUTS[readout](model.train(), tokens, [Span(0, 3)])

    def test_blocks_may_end_with_the_tokens(self, readout: str, model: PreTrainedModel, tokens: Tensor) -> None:
        assert READOUTS[readout](model, tokens, [Span(0, 1), Span(1, 17)]).isfinite().all()

    def test_takes_half_precision(self, readout: str, model: PreTrainedModel, example: Example, tokens: Tensor) -> None:
        whole = READOUTS[readout](model, tokens, example.blocks)
        half = READOUTS[readout](model.bfloat16(), tokens, example.blocks)
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, whole, atol=0.1 * float(whole.max()), rtol=0.3)


def test_other_attention_implementations_are_refused(model: PreTrainedModel, tokens: Tensor) -> None:
    model.config._attn_implementation_internal = "flex_attention"
    with pytest.raises(ValueError, match="expected attn_implementation 'eager' or 'sdpa', got 'flex_attention'"):
        answer_attention(model, tokens, [Span(0, 3)])


def test_attention_sinks_are_refused() -> None:
    config = GptOssConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        attn_implementation="eager",
    )
    with pytest.raises(ValueError, match="got s_aux as well; use a model without attention sinks"):
        answer_attention(GptOssForCausalLM(config).eval(), torch.zeros(1, 5).long(), [Span(0, 3)])


def test_a_layer_that_computes_something_else_is_refused() -> None:
    query, key, value = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0)).unbind(0)
    layer = layers.Layer(query, key, value, torch.zeros(1, 1, 5, 5), scale=0.5, softcap=None)
    output = (layer.attention(Span(0, 5)) @ value).transpose(1, 2)
    layers.check_layer(nn.Identity(), layer, output, {})
    with pytest.raises(ValueError, match="Identity: expected the softmax of scaled, masked scores"):
        layers.check_layer(nn.Identity(), layer, output * 1.01, {})


def test_layers_without_attention_are_noticed(model: PreTrainedModel, tokens: Tensor) -> None:
    model.config.num_hidden_layers = 4
    with pytest.raises(ValueError, match="attention interface in all 4 layers, saw it in 3"):
        answer_attention(model, tokens, [Span(0, 3)])


def test_shared_layers_cost_one_forward_and_change_nothing(model: PreTrainedModel, example: Example) -> None:
    forwards = 0

    def count(*_: object) -> None:
        nonlocal forwards
        forwards += 1

    model.register_forward_hook(count)
    tokens, other = example.tokens[None], example.tokens.flip(0)[None]
    readouts = {name: readout for name, readout in READOUTS.items() if name != "saliency"}
    alone = [readout(model, batch, example.blocks) for batch in (tokens, other) for readout in readouts.values()]
    assert forwards == len(alone)
    forwards = 0
    with layers.shared_layers():
        shared = [readout(model, batch, example.blocks) for batch in (tokens, other) for readout in readouts.values()]
    assert forwards == 2
    assert all(torch.equal(a, b) for a, b in zip(alone, shared, strict=True))
    answer_attention(model, other, example.blocks)
    assert forwards == 3, "outside, nothing is remembered"


def test_a_cache_of_latents_is_not_filled_with_keys(example: Example) -> None:
    """DeepSeek's attention reads keys that its cache does not hold: a continuation is read from the beginning."""
    torch.manual_seed(0)
    latents = DeepseekV3ForCausalLM(
        DeepseekV3Config(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=48,
            moe_intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            n_routed_experts=4,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            first_k_dense_replace=1,
            kv_lora_rank=8,
            q_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=6,
            max_position_embeddings=64,
        )
    ).eval()
    tokens, held = example.tokens[None], example.blocks[-1].stop
    alone = [accumulated_attention(latents, tokens[:, :n], example.blocks) for n in (held, tokens.shape[1])]
    with layers.shared_layers():
        shared = [accumulated_attention(latents, tokens[:, :n], example.blocks) for n in (held, tokens.shape[1])]
    assert all(torch.equal(a, b) for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize("batched", [1, 2])
def test_a_continuation_costs_what_it_adds_and_reads_the_same(
    model: PreTrainedModel, example: Example, batched: int
) -> None:
    lengths: list[int] = []
    model.register_forward_hook(lambda module, inputs, output: lengths.append(inputs[0].shape[1]))
    tokens = example.tokens[None].repeat(batched, 1)
    held = example.blocks[-1].stop
    continued = torch.cat([tokens[:, :held], tokens[:, :3]], dim=1)
    alone = [accumulated_attention(model, batch, example.blocks) for batch in (tokens, continued)]
    lengths.clear()
    with layers.shared_layers() as sharing:
        accumulated_attention(model, tokens[:, :held], example.blocks)
        assert sharing.spared == 0, "nothing was there yet"
        shared = [accumulated_attention(model, batch, example.blocks) for batch in (tokens, continued, continued)]
        assert sharing.context is not None
        assert sharing.longer is not None
        windowed = layers.clean_mask(model, 1, 1) is not None
        spared = sharing.longer.seconds + (0 if windowed else 3 * sharing.context.seconds)
        assert sharing.spared == pytest.approx(spared)
    assert lengths == ([held, tokens.shape[1], held + 3] if windowed else [held, tokens.shape[1] - held, 3])
    for expected, found in zip([*alone, alone[1]], shared, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)

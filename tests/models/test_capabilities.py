"""Accepted models obey the equation the engine uses, to 1e-4 in logits; refused ones say why."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from keepset.models import capabilities
from keepset.models.capabilities import check_supported, position_limit, sliding_windows

T = 20
WINDOW = 6
HIDDEN = (*range(4, 9), 13)

SHAPE: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
HEADS = {**SHAPE, "head_dim": 8}
WINDOWED = {**SHAPE, "sliding_window": WINDOW}
MIXED = {**HEADS, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"] * 2}
GPT = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0}
YARN = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": 32}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
NEOX = {key: SHAPE[key] for key in SHAPE if key != "num_key_value_heads"}
OPT = {**NEOX, "ffn_dim": 48, "word_embed_proj_dim": 32, "pad_token_id": 1}
FALCON = {**NEOX, "multi_query": True}
MLA = {
    **SHAPE,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
}
SCALED = {**MIXED, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 5.0}

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SHAPE),
    "llama yarn": ("LlamaConfig", {**SHAPE, "rope_parameters": YARN}),
    "qwen2": ("Qwen2Config", SHAPE),
    "qwen2 window": ("Qwen2Config", {**WINDOWED, "use_sliding_window": True, "max_window_layers": 2}),
    "qwen3": ("Qwen3Config", HEADS),
    "gemma": ("GemmaConfig", HEADS),
    "gemma2 softcap": ("Gemma2Config", SCALED),
    "gemma3": ("Gemma3TextConfig", MIXED),
    "mistral": ("MistralConfig", {**SHAPE, "sliding_window": None}),
    "mistral window": ("MistralConfig", WINDOWED),
    "mixtral": ("MixtralConfig", {**SHAPE, "sliding_window": None, "num_local_experts": 4}),
    "phi3 window": ("Phi3Config", WINDOWED),
    "gpt2": ("GPT2Config", {**GPT, "eos_token_id": 0}),
    "gpt_neox": ("GPTNeoXConfig", NEOX),
    "opt": ("OPTConfig", OPT),
    "falcon rotary": ("FalconConfig", {**FALCON, "alibi": False}),
    "olmo3": ("Olmo3Config", MIXED),
    "doge that reads all keys": ("DogeConfig", {**SHAPE, "keep_window_size": 64}),
    "deepseek_v3 latents": ("DeepseekV3Config", MLA),
    "gpt_oss": ("GptOssConfig", {**MIXED, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": YARN}),
}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "bloom": ("BloomConfig", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "ALiBi"),
    "mpt": ("MptConfig", {"vocab_size": 64, "d_model": 32, "n_layers": 2, "n_heads": 4}, "ALiBi"),
    "falcon alibi": ("FalconConfig", {**FALCON, "alibi": True}, "ALiBi"),
    "gpt_neo": (
        "GPTNeoConfig",
        {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["local"], 2]]},
        "local attention counts slots",
    ),
    "mamba": ("MambaConfig", {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1}, "recurrent state"),
    "falcon_h1": ("FalconH1Config", {**SHAPE, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8}, "recurrent"),
    "jamba": ("JambaConfig", {**SHAPE, "num_experts": 2, "mamba_dt_rank": 4}, "recurrent state"),
    "lfm2 conv": ("Lfm2Config", {**SHAPE, "layer_types": ["conv", "full_attention"] * 2}, "layers of type conv"),
    "llama4": ("Llama4TextConfig", {**HEADS, "num_local_experts": 2, "intermediate_size_mlp": 48}, "chunked_attention"),
    "dynamic": (
        "LlamaConfig",
        {**SHAPE, "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
        r"\(dynamic\) depend on the current length",
    ),
    "longrope": (
        "Phi3Config",
        {**SHAPE, "original_max_position_embeddings": 32, "rope_parameters": LONGROPE},
        r"\(longrope\) depend on the current length",
    ),
    "bidirectional": ("Gemma3TextConfig", {**MIXED, "use_bidirectional_attention": True}, "bidirectional"),
    "doge": ("DogeConfig", {**SHAPE, "keep_window_size": 16}, r"only the 16 keys they rank first \(keep_window_size\)"),
    "capacity": ("MixtralConfig", {**SHAPE, "num_local_experts": 4, "capacity_factor": 1.25}, "limited capacity"),
}


def build(config_class: str, arguments: dict[str, Any]) -> PreTrainedModel:
    return strong(AutoModelForCausalLM.from_config(getattr(transformers, config_class)(**arguments)))


def strong(model: PreTrainedModel) -> PreTrainedModel:
    """The usual small random weights hardly attend to anything; these do."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    return model.eval()


def explicit(allowed: Tensor, positions: Tensor, windows: dict[str, int | None] | None) -> Any:
    """Masks written out pair by pair, independently of the code under test."""
    masks = {}
    for kind, window in (windows or {"": None}).items():
        mask = torch.full((1, 1, len(positions), len(positions)), -1e4)
        for row, query in enumerate(positions.tolist()):
            for column, key in enumerate(positions.tolist()):
                if allowed[row, column] and (window is None or query - window < key):
                    mask[0, 0, row, column] = 0
        masks[kind] = mask
    return masks if len(masks) > 1 else next(iter(masks.values()))


@pytest.mark.parametrize("name", ACCEPTED)
@torch.no_grad()
def test_hiding_equals_leaving_out_on_accepted_models(name: str) -> None:
    model = build(*ACCEPTED[name])
    check_supported(model)
    windows = sliding_windows(model)
    tokens = torch.randint(64, (1, T), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(T)
    kept = torch.tensor([i not in HIDDEN for i in range(T)])
    causal = positions[:, None] >= positions[None, :]
    hiding = causal & (kept[None, :] | ~kept[:, None])

    plain = model(tokens).logits[0]
    clean = model(tokens, attention_mask=explicit(causal, positions, windows), position_ids=positions[None]).logits[0]
    hidden = model(tokens, attention_mask=explicit(hiding, positions, windows), position_ids=positions[None]).logits[0]
    dropped = model(
        tokens[:, kept],
        attention_mask=explicit(hiding[kept][:, kept], positions[kept], windows),
        position_ids=positions[kept][None],
    ).logits[0]

    assert (plain - clean).abs().max() < 1e-4
    assert (hidden[kept] - dropped).abs().max() < 1e-4
    assert (hidden[kept] - plain[kept]).abs().max() > 1e-2, "the hidden blocks do not matter: this shows nothing"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_models_say_why(name: str) -> None:
    config, arguments, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        check_supported(build(config, arguments))


def test_encoder_decoders_are_refused() -> None:
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    with pytest.raises(ValueError, match="encoder-decoder"):
        check_supported(transformers.T5ForConditionalGeneration(config))


def test_attention_without_masks_is_refused() -> None:
    model = build(*ACCEPTED["llama"])
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="reads no 4D mask; load it with attn_implementation='eager' or 'sdpa'"):
        check_supported(model)


class IgnoresPositions(transformers.LlamaForCausalLM):
    def forward(self, *args: Any, position_ids: Tensor | None = None, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


class IgnoresMasks(transformers.LlamaForCausalLM):
    def forward(self, *args: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


class TakesNoMasks(transformers.LlamaForCausalLM):
    def forward(self, input_ids: Tensor, use_cache: bool) -> Any:
        return super().forward(input_ids, use_cache=use_cache)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("model_class", "reason"),
    [
        (IgnoresPositions, "not the same as leaving its tokens out"),
        (IgnoresMasks, "not the same as leaving its tokens out"),
        (TakesNoMasks, "does not take explicit masks and positions"),
    ],
)
def test_the_probe_catches_models_nobody_listed(model_class: type, reason: str, dtype: torch.dtype) -> None:
    model = strong(model_class(transformers.LlamaConfig(**SHAPE))).to(dtype)
    with pytest.raises(ValueError, match=reason):
        check_supported(model)


def test_the_probe_catches_windows_the_config_does_not_declare() -> None:
    model = build(*ACCEPTED["gemma3"])
    model.config.layer_types = ["full_attention", "sliding_attention"] * 2
    check_supported(model)  # the model reads its layer types from the config, so this is consistent
    model = build(*ACCEPTED["gemma3"])
    model.model.config = transformers.Gemma3TextConfig(**{**MIXED, "sliding_window": 2})
    with pytest.raises(ValueError, match="its own mask is not the one its config declares"):
        check_supported(model)


@pytest.mark.parametrize("name", ["bloom", "falcon alibi", "bidirectional"])
def test_the_probe_agrees_with_the_list(name: str) -> None:
    config, arguments, _ = REFUSED[name]
    assert capabilities._probe(build(config, arguments)) is not None


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "mixtral"])
def test_low_precision_is_no_reason_to_refuse(name: str) -> None:
    check_supported(build(*ACCEPTED[name]).to(torch.bfloat16))


def test_a_model_is_probed_once() -> None:
    model, forwards = build(*ACCEPTED["llama"]), 0

    def count(*_: object) -> None:
        nonlocal forwards
        forwards += 1

    model.register_forward_hook(count)
    check_supported(model)
    once = forwards
    assert once > 0
    check_supported(model)
    assert forwards == once
    model.set_attn_implementation("eager")
    check_supported(model)
    assert forwards == 2 * once, "another attention is another function"


def test_a_check_leaves_the_model_as_it_was() -> None:
    model = build(*ACCEPTED["gemma3"]).train()
    before = model.config.to_dict()
    check_supported(model)
    assert model.training
    assert model.config.to_dict() == before


def test_windows_by_layer_type() -> None:
    assert sliding_windows(build(*ACCEPTED["llama"])) is None
    assert sliding_windows(build(*ACCEPTED["mistral"])) is None
    assert sliding_windows(build(*ACCEPTED["mistral window"])) == {"sliding_attention": WINDOW}
    assert sliding_windows(build(*ACCEPTED["gemma3"])) == {"full_attention": None, "sliding_attention": WINDOW}
    off = {**WINDOWED, "use_sliding_window": False}
    assert sliding_windows(build("Qwen2Config", off)) is None


@pytest.mark.parametrize("wrong", [WINDOW - 1, WINDOW + 1])
@torch.no_grad()
def test_the_window_counts_the_token_itself(wrong: int) -> None:
    model = build(*ACCEPTED["mistral window"])
    tokens = torch.randint(64, (1, T), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(T)
    causal = positions[:, None] >= positions[None, :]
    off_by_one = explicit(causal, positions, {"sliding_attention": wrong})
    assert (model(tokens).logits - model(tokens, attention_mask=off_by_one).logits).abs().max() > 1e-2


def test_position_limit() -> None:
    assert position_limit(build(*ACCEPTED["llama"])) == 64
    assert position_limit(build(*ACCEPTED["gpt2"])) == 64

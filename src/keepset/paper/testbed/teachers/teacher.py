"""Building and loading teachers: plain ``transformers`` causal LMs with small configs."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from keepset import seeds
from keepset.blocks import ExampleBatch
from keepset.files import read_record, replacing_folder, write_json, writing_tensors
from keepset.paper.testbed.teachers.config import Architecture, TeacherConfig

CLASSES: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def build_teacher(config: TeacherConfig) -> PreTrainedModel:
    """A freshly initialised teacher; the same config gives the same weights."""
    arch = config.architecture
    shape: dict[str, Any] = {
        "vocab_size": config.vocabulary.size,
        "hidden_size": arch.width,
        "intermediate_size": arch.mlp_width,
        "num_hidden_layers": arch.layers,
        "num_attention_heads": arch.heads,
        "num_key_value_heads": arch.heads,
        "head_dim": arch.width // arch.heads,
        "max_position_embeddings": config.max_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": arch.rope_theta},
        "attention_bias": arch.attention_bias,
        "tie_word_embeddings": False,
        # The tasks have no text-generation specials; id 0 is filler.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seeds.TEACHER_INIT.seed(config.seed))
        config_class, model_class = CLASSES[arch.family]
        model = model_class(config_class(**shape))
    if arch.offset_heads:
        _start_offset_heads(model, arch)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("q_norm.weight"):
                parameter.fill_(arch.qk_norm_start)
            if arch.zero_output_projections and name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
    return model


OFFSET_LAYERS = 2
"""Layers that start with offset heads: one to join a key, one to join it to its value."""
OFFSET_PAIRS = 3
"""Rotary pairs that carry an offset: the fastest three tell neighbours apart and repeat only far away."""
OFFSET_STRENGTH = 8.0
"""Size of the bias; about ten times what the projections give at the start."""


@torch.no_grad()
def _start_offset_heads(model: PreTrainedModel, arch: Architecture) -> None:
    """Sets query and key biases so that a head's score peaks at a fixed distance under rotary positions.

    With key bias at angle 0 and query bias at angle -offset * frequency, the rotated two agree exactly
    where the key stands ``offset`` tokens before the query.
    """
    size = arch.width // arch.heads
    frequency = arch.rope_theta ** (-torch.arange(OFFSET_PAIRS) / (size // 2))
    for layer in model.model.layers[:OFFSET_LAYERS]:
        for head in range(min(arch.offset_heads, arch.heads)):
            angle = -(head + 1) * frequency
            first = slice(head * size, head * size + OFFSET_PAIRS)
            second = slice(first.start + size // 2, first.stop + size // 2)
            layer.self_attn.k_proj.bias[first] = OFFSET_STRENGTH
            layer.self_attn.q_proj.bias[first] = OFFSET_STRENGTH * torch.cos(angle)
            layer.self_attn.q_proj.bias[second] = OFFSET_STRENGTH * torch.sin(angle)


@torch.no_grad()
def accuracy(model: PreTrainedModel, batch: ExampleBatch, chunk: int = 64) -> Tensor:
    """(B,) bool: the most likely token at the first answer row is the answer. The full context is visible."""
    device = next(model.parameters()).device
    found = []
    for tokens, answers in zip(batch.first_query().split(chunk), batch.answers[:, 0].split(chunk), strict=True):
        logits = model(tokens.to(device), logits_to_keep=1, use_cache=False).logits[:, -1]  # (B, V)
        found.append(logits.argmax(-1).cpu() == answers)
    return torch.cat(found)


def save_teacher(model: PreTrainedModel, config: TeacherConfig, out: Path) -> None:
    """Weights (bfloat16 safetensors), the transformers config, and ``teacher.json``, atomically into ``out``.

    What else is in ``out`` (metrics, checkpoints) stays.
    """
    with replacing_folder(out / ".weights") as temporary, writing_tensors(out):
        model.config.save_pretrained(temporary)
        tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
        save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
    for path in sorted((out / ".weights").iterdir()):
        path.replace(out / path.name)
    (out / ".weights").rmdir()
    # Written last: its presence says the teacher is complete.
    write_json(out / "teacher.json", config.model_dump(mode="json"))


def load_teacher(folder: Path) -> tuple[PreTrainedModel, TeacherConfig]:
    """A trained teacher, in float32 and evaluation mode, with its config."""
    path = folder / "teacher.json"
    if not path.exists():
        unfinished = (folder / "checkpoints").exists()
        reason = "its training has not finished: run the same 'keepset teacher train' again" if unfinished else ""
        raise ValueError(f"{folder}: expected a trained teacher (teacher.json), got none; {reason}".rstrip("; "))
    config = read_record(path, TeacherConfig, "a teacher's config")
    try:
        config_class, model_class = CLASSES[config.architecture.family]
        model = model_class(config_class.from_pretrained(folder, local_files_only=True))
        weights = load_file(folder / "model.safetensors")
        model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{folder}: the weights cannot be read ({error}); train the teacher again") from error
    return model.eval(), config

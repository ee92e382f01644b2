"""What is measured on: bundled models, and one of untrained weights that costs nothing."""

from functools import lru_cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from keepset import seeds
from keepset.models.loading import load_model
from keepset.models.quantize import Quantize, quantized

TINY = "tiny"


def short_name(model: str, quantize: Quantize | None) -> str:
    """In names of files and tables: a hub id without its owner, and how it is rounded."""
    return "-".join(filter(None, (model.split("/")[-1], quantize)))


def loaded(name: str, quantize: Quantize | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, once for all jobs of a run, on a GPU where there is one; ``tiny`` is an untrained one."""
    return _loaded(name, quantize)


@lru_cache(maxsize=1)
def _loaded(name: str, quantize: Quantize | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if name != TINY:
        on_gpu = torch.cuda.is_available() and quantize is None  # whole numbers are multiplied on CPUs alone
        return load_model(name, device="cuda" if on_gpu else "cpu", quantize=quantize)
    model, tokenizer = tiny_model()
    return (quantized(model) if quantize else model), tokenizer


def tiny_model() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A Llama of two layers with untrained weights and a byte-level tokenizer: the same code path in seconds."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["The code for NARO is 4821. What is the code for BELU?\nuser assistant"], trainer)
    chat = (
        "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=chat, eos_token="<|end|>")
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2_048,
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(seeds.TEACHER_INIT.seed(0))
    model = LlamaForCausalLM(config).eval()
    torch.random.set_rng_state(state)
    return model, fast

"""A GGUF file as small as one can be: a Llama of two layers with a byte-level tokenizer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers.pre_tokenizers import ByteLevel

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
WIDTH, HIDDEN, LAYERS, HEADS = 32, 48, 2, 4


def write_tiny_gguf(path: Path, pre: str = "smollm", add_bos: bool = False, tensors: bool = True) -> None:
    letters = sorted(ByteLevel.alphabet())
    merges = ["Ġ Ġ", "t h", "Ġ th", "Ġth e"]
    vocabulary = [*SPECIALS, *letters, *(merge.replace(" ", "") for merge in merges)]
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(vocabulary) - len(SPECIALS)))  # 3 is CONTROL
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos)
    writer.add_chat_template(CHAT)
    shapes = {"token_embd.weight": (len(vocabulary), WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{name}.weight": (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {f"blk.{i}.{name}.weight": (HIDDEN, WIDTH) for name in ("ffn_gate", "ffn_up")}
        shapes |= {f"blk.{i}.ffn_down.weight": (WIDTH, HIDDEN)}
        shapes |= {f"blk.{i}.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
    rng = np.random.default_rng(0)
    for name, shape in shapes.items() if tensors else ():
        noise = rng.normal(0, 0.2, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(name, noise.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_tiny_gguf(path)
    return path


@pytest.fixture(scope="session")
def gguf_writer() -> Callable[..., None]:
    """Writes a tiny GGUF with other settings."""
    return write_tiny_gguf

"""GGUF files as plain transformers models: unpacked weights, and a tokenizer that splits as in training."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keepset.files import writing_tensors
from keepset.models.every_load import PROBE_TEXT, check_complete, quiet_transformers
from keepset.models.memory import is_out_of_memory

MAGIC = b"GGUF"


def load_gguf(path: Path, dtype: torch.dtype) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of a GGUF file with every weight unpacked, and its tokenizer."""
    with header_read_once():
        return _load_gguf(path, dtype)


def _load_gguf(path: Path, dtype: torch.dtype) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    metadata = read_metadata(path)
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                path.parent,
                gguf_file=path.name,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                **unpacking(),
            )
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(
            f"{path}: transformers cannot load this GGUF file (architecture "
            f"{metadata.get('general.architecture', 'not stated')!r}): {error}"
        ) from error
    model, report = loaded
    check_complete(path, report)
    repair_tokenizer(tokenizer, metadata)
    check_tokenizer(tokenizer, metadata, path)
    forget_quantization(model)
    model.eval()
    return model, tokenizer


def unpacking() -> dict[str, Any]:
    """Where a kernel for packed weights is installed, transformers keeps them packed unless told otherwise; versions
    that know no ``GgufConfig`` always unpack."""
    if not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def convert_gguf(path: Path, folder: Path, dtype: torch.dtype) -> None:
    """Writes the model of a GGUF file to ``folder`` as safetensors, with config, tokenizer and chat template."""
    model, tokenizer = load_gguf(path, dtype)
    with quiet_transformers(), writing_tensors(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def read_metadata(path: Path) -> dict[str, Any]:
    """The single-valued header fields of a GGUF file; refuses what is not one."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ValueError(f"{path}: expected a GGUF file (starting with {MAGIC!r}), got {start!r}")
    try:
        reader = gguf.GGUFReader(str(path))  # as transformers asks for it: see header_read_once
        return {key: field.contents() for key, field in reader.fields.items() if len(field.data) == 1}
    except Exception as error:  # a truncated file fails anywhere inside the reader
        raise ValueError(
            f"{path}: the GGUF header cannot be read; the file is damaged or cut short: {error}"
        ) from error


@contextmanager
def header_read_once() -> Iterator[None]:
    """transformers parses the header anew for the configuration, the tokenizer and the weights, with every word of the
    vocabulary, and lists the names of all tensors anew for every layer: together longer than unpacking a small model.
    """
    slow = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    for name, read in slow.items():
        setattr(gguf, name, cache(read))
    try:
        yield
    finally:
        for name, read in slow.items():
            setattr(gguf, name, read)


def repair_tokenizer(tokenizer: PreTrainedTokenizerBase, metadata: dict[str, Any]) -> None:
    """Restores what transformers drops when it builds a tokenizer from a GGUF header.

    Gemma lost its leading <bos> (without it the model writes nonsense), and SmolLM its rule that every digit
    is split off first (runs of spaces before a digit came out as other tokens than in training).
    """
    if "tokenizer.ggml.add_bos_token" in metadata and tokenizer.bos_token is not None:
        tokenizer.add_bos_token = bool(metadata["tokenizer.ggml.add_bos_token"])
    if metadata.get("tokenizer.ggml.pre") == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, metadata: dict[str, Any], path: Path) -> None:
    """A tokenizer must give text back unchanged, start as the header says, and carry the header's chat template."""
    ids = tokenizer(PROBE_TEXT, add_special_tokens=False)["input_ids"]
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if tokenizer.unk_token_id not in ids and back != PROBE_TEXT:
        raise ValueError(f"{path}: the tokenizer does not give text back: expected {PROBE_TEXT!r}, got {back!r}")
    wants_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", False)) and tokenizer.bos_token is not None
    if wants_bos and tokenizer("a")["input_ids"][0] != tokenizer.bos_token_id:
        raise ValueError(f"{path}: the header asks for a leading {tokenizer.bos_token!r}, the tokenizer adds none")
    if metadata.get("tokenizer.chat_template") and not tokenizer.chat_template:
        raise ValueError(f"{path}: the header has a chat template, the tokenizer lost it")


def forget_quantization(model: PreTrainedModel) -> None:
    """Makes an unpacked model an ordinary one: while these marks stay, ``save_pretrained`` refuses."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    for name, value in (("hf_quantizer", None), ("is_quantized", False), ("quantization_method", None)):
        if hasattr(model, name):
            setattr(model, name, value)

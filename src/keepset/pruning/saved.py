"""A pruned document on disk: ``pruned.json`` and ``cache.safetensors`` in one folder."""

from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.files import Frozen, read_record, replacing_folder, sha256, write_json, writing_tensors
from keepset.models.cache import KeysValues
from keepset.models.fingerprint import fingerprint
from keepset.models.quantize import Quantize, quantization
from keepset.pruning.cache import KeptCache, prefill_kept
from keepset.pruning.report import PruneRecord
from keepset.text.prompt import document_tokens

RECORD = "pruned.json"
CACHE = "cache.safetensors"


class SavedPruned(Frozen):
    """``pruned.json``."""

    schema_version: Literal[1] = 1
    model: str
    """What the model was called where the document was pruned; ``load_model`` takes it."""
    quantize: Quantize | None = None
    """How it was quantized then, as ``load_model`` takes it."""
    fingerprint: str
    """Of the model and its tokenizer: another model cannot read these keys and values."""
    cache_sha256: str
    record: PruneRecord


def check_target(folder: Path, force: bool) -> None:
    """A place to save to: new, or with ``force`` an earlier pruned document."""
    if folder.is_file():
        raise ValueError(f"{folder}: expected a new folder, got a file; choose another name")
    foreign = sorted({path.name for path in folder.glob("*")} - {RECORD, CACHE})
    if foreign:
        raise ValueError(
            f"{folder}: expected a new folder or one that holds only a pruned document, got {', '.join(foreign[:3])}; "
            "saving replaces the folder: choose another one"
        )
    if not force and (folder / RECORD).exists():
        raise ValueError(
            f"{folder}: expected a new folder, got one with a pruned document; choose another one, or replace it with "
            "--force (in Python: force=True)"
        )


def save_pruned(
    folder: Path,
    record: PruneRecord,
    cache: KeptCache,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    model_name: str,
    force: bool,
) -> None:
    """Complete or not at all; with ``force`` it replaces an earlier pruned document, and nothing else."""
    check_target(folder, force)
    with replacing_folder(folder) as temporary:
        with writing_tensors(folder / CACHE):
            save_file(_named(cache.layers), temporary / CACHE)
        saved = SavedPruned(
            model=model_name,
            quantize=quantization(model),
            fingerprint=fingerprint(model, tokenizer),
            cache_sha256=sha256(temporary / CACHE),
            record=record,
        )
        write_json(temporary / RECORD, saved.model_dump(mode="json"))


def load_pruned(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[PruneRecord, KeysValues]:
    """The record, and keys and values where the model is. Refuses what is damaged or belongs to another model."""
    saved = read_saved(folder)
    if fingerprint(model, tokenizer) != saved.fingerprint:
        raise ValueError(
            f"{folder}: expected the model it was pruned for ({saved.model}), got another one "
            f"({model.name_or_path or type(model).__name__}) or other weights, dtype, tokenizer or chat template; "
            "load that model or prune the document again"
        )
    _check_length(folder, saved.record, tokenizer)
    found = sha256(folder / CACHE) if (folder / CACHE).is_file() else "no file"
    if found != saved.cache_sha256:
        raise ValueError(
            f"{folder} is damaged: expected {CACHE} with sha256 {saved.cache_sha256[:12]}, got {found[:12]}; "
            "prune the document again"
        )
    try:
        parts = load_file(folder / CACHE, device=str(model.device))
        n_layers = model.config.get_text_config().num_hidden_layers
        # Cloned: what is loaded may be a view of one mapping of the whole file.
        own = [[parts[f"{i}.{name}"].to(model.dtype).clone() for i in range(n_layers)] for name in ("keys", "values")]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{folder}: {CACHE} cannot be read ({error}); prune the document again") from error
    layers = KeysValues(*own)
    _check_shapes(folder, model, layers, len(saved.record.positions))
    return saved.record, layers


def read_saved(folder: Path) -> SavedPruned:
    """What ``folder`` says about its document and its model."""
    path = folder / RECORD
    if not path.is_file():
        raise ValueError(f"{folder}: expected a pruned document ({RECORD} and {CACHE}), got no {RECORD}")
    return read_record(path, SavedPruned, "a record that 'save' wrote")


def _check_length(folder: Path, record: PruneRecord, tokenizer: PreTrainedTokenizerBase) -> None:
    """Memory is asked for by what the record says, so it must say what the document is."""
    said = {"n_tokens": (record.document, record.n_tokens), "text_tokens": (record.text, record.text_tokens or 0)}
    for name, (text, found) in said.items():
        longest = len(document_tokens(tokenizer, text)) if found else 0
        if found > longest:
            raise ValueError(
                f"{folder}: expected at most the {longest:,} tokens of its document in {name}, got {found:,}; "
                "prune the document again"
            )


def _check_shapes(folder: Path, model: PreTrainedModel, layers: KeysValues, slots: int) -> None:
    """What the model itself leaves for one token says what it can read."""
    (one,) = prefill_kept(model, [(torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long))], "global")
    for found, own in zip([*layers.keys, *layers.values], one.tensors, strict=True):
        expected = (*own.shape[:2], slots, own.shape[3])
        if tuple(found.shape) != expected:
            raise ValueError(
                f"{folder}: expected {CACHE} with tensors of shape {expected}, got {tuple(found.shape)}; "
                "prune the document again"
            )


def _named(layers: KeysValues) -> dict[str, Tensor]:
    keys = {f"{i}.keys": part.contiguous() for i, part in enumerate(layers.keys)}
    return keys | {f"{i}.values": part.contiguous() for i, part in enumerate(layers.values)}

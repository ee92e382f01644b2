"""A pruned document on disk: ``pruned.json`` and ``cache.safetensors`` in one folder."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.files import replacing_folder, sha256, write_json
from keepset.models.cache import KeysValues
from keepset.models.fingerprint import fingerprint
from keepset.models.quantize import Quantize, quantization
from keepset.pruning.cache import KeptCache
from keepset.pruning.report import PruneRecord

RECORD = "pruned.json"
CACHE = "cache.safetensors"


class SavedPruned(BaseModel):
    """``pruned.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    model: str
    """What the model was called where the document was pruned; ``load_model`` takes it."""
    quantize: Quantize | None = None
    """How it was quantized then, as ``load_model`` takes it."""
    fingerprint: str
    """Of the model and its tokenizer: another model cannot read these keys and values."""
    cache_sha256: str
    record: PruneRecord


def check_target(folder: Path) -> None:
    """A place to save to: new, or an earlier pruned document."""
    if folder.is_file():
        raise ValueError(f"{folder}: expected a new folder, got a file; choose another name")
    foreign = sorted({path.name for path in folder.glob("*")} - {RECORD, CACHE})
    if foreign:
        raise ValueError(
            f"{folder}: expected a new folder or one that holds only a pruned document, got {', '.join(foreign[:3])}; "
            "saving replaces the folder: choose another one"
        )


def save_pruned(
    folder: Path,
    record: PruneRecord,
    cache: KeptCache,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    model_name: str,
) -> None:
    """Replaces an earlier pruned document in ``folder``, and nothing else."""
    check_target(folder)
    with replacing_folder(folder) as temporary:
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
    return saved.record, KeysValues(*own)


def read_saved(folder: Path) -> SavedPruned:
    """What ``folder`` says about its document and its model."""
    path = folder / RECORD
    if not path.is_file():
        raise ValueError(f"{folder}: expected a pruned document ({RECORD} and {CACHE}), got no {RECORD}")
    try:
        return SavedPruned.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise ValueError(f"{path}: expected a record that 'save' wrote, got something else: {error}") from error


def _named(layers: KeysValues) -> dict[str, Tensor]:
    keys = {f"{i}.keys": part.contiguous() for i, part in enumerate(layers.keys)}
    return keys | {f"{i}.values": part.contiguous() for i, part in enumerate(layers.values)}

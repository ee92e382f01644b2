"""One way in for every model: a bundled name, a folder, a GGUF file, or a hub id."""

from pathlib import Path
from typing import Any

import psutil
import torch
from huggingface_hub import model_info
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from rich.console import Console
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keepset.models.bundled import fetch, fetched
from keepset.models.capabilities import check_supported
from keepset.models.device import check_device
from keepset.models.every_load import PROBE_TEXT, check_complete, quiet_transformers
from keepset.models.gguf_file import load_gguf
from keepset.models.memory import is_out_of_memory
from keepset.models.naming import kind_of_model, known_names, model_path
from keepset.models.products import by_faster_products
from keepset.models.quantize import Quantize, check_quantize, quantized
from keepset.models.stored import RECORD, check_stored, repair
from keepset.terminal import one_line

MEMORY_SHARE = 0.7
"""How much of the available memory weights may take; activations and caches need the rest."""

HUB_SECONDS = 5
"""How long the hub may take to say whether it has a model."""


def load_model(
    name: str | Path,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str = "cpu",
    trust_remote_code: bool = False,
    quantize: Quantize | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model ready for interventions, in eval mode, and its tokenizer.

    ``name`` is a bundled name (fetched first, with a message, when it is not there), a folder written by
    ``save_pretrained``, a ``.gguf`` file, or a hub id. Weights are read from safetensors only. Without ``dtype``
    see ``default_dtype``. ``quantize="int8"`` multiplies whole numbers, on a CPU: see ``keepset.models.quantize``.
    """
    kind = kind_of_model(name)
    device = check_device(device)
    check_quantize(quantize)
    if quantize and device.type != "cpu":
        raise ValueError(f"quantize: expected the device cpu for int8, got {device}; leave quantize out there")
    wanted = _check_dtype(dtype)
    path = model_path(name)
    if kind == "bundled":
        folder = fetched(str(name))
        if folder is None:
            Console(stderr=True).print(f"{name} is not on this machine yet", highlight=False)
            folder = fetch(str(name))
        model, tokenizer = _load_folder(folder, wanted, device, trust_remote_code)
    elif kind == "gguf":
        model, tokenizer = load_gguf(path, wanted or default_dtype(_unpacked_parameters(path), device))
    elif kind == "folder":
        model, tokenizer = _load_folder(path, wanted, device, trust_remote_code)
    else:
        model, tokenizer = _load_from_hub(str(name), wanted, device, trust_remote_code)
    torch.nn.Module.to(model, device)
    model.eval()
    check_supported(model)
    check_tokens(name, model, tokenizer)
    return by_faster_products(quantized(model) if quantize else model), tokenizer


def _load_folder(
    folder: Path, dtype: torch.dtype | None, device: torch.device, trust_remote_code: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    check_stored(folder)
    try:
        return _load(folder, dtype, device, trust_remote_code, local=True)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        advice = f"; {repair(folder)}" if (folder / RECORD).is_file() else ""
        raise ValueError(_said(folder, error) + advice) from error


def _said(source: str | Path, error: Exception) -> str:
    """A broken config, header or tokenizer fails anywhere inside transformers, with any error and in many lines."""
    own = str(error).startswith(f"{source}: ")
    return one_line(str(error) if own else f"{source}: the model cannot be loaded: {error}")


def _load_from_hub(
    name: str, dtype: torch.dtype | None, device: torch.device, trust_remote_code: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """One question whether the hub is there and has the model: transformers would try again for half a minute."""
    unknown = f"{name!r} is no bundled model and no folder here"
    unreachable: Exception | None = None
    try:
        model_info(name, timeout=HUB_SECONDS)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ValueError(f"{unknown}, and the hub has no such model, or not for you. {known_names()}") from error
    except Exception as error:  # no network, or told not to use it: what was downloaded before still serves
        unreachable = error
    try:
        return _load(name, dtype, device, trust_remote_code, local=unreachable is not None)
    except OSError as error:
        why = f"the hub said: {error}" if unreachable is None else f"the hub cannot be reached ({unreachable})"
        said = f"{unknown}, and could not be loaded from the hub with safetensors weights: {why}. {known_names()}"
        raise ValueError(one_line(said)) from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(_said(name, error)) from error


def check_tokens(name: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """A tokenizer that writes tokens, all of which the model has."""
    ids = tokenizer(PROBE_TEXT, add_special_tokens=False)["input_ids"]
    size = model.config.get_text_config().vocab_size
    if not ids or max(ids) >= size:
        got = f"an id of {max(ids):,}" if ids else "none"
        raise ValueError(
            f"{name}: expected a tokenizer that gives tokens of the model's {size:,}, got {got} for plain text; "
            "use the tokenizer the model was trained with"
        )


def default_dtype(parameters: int, device: torch.device | str = "cpu") -> torch.dtype:
    """float32 on a CPU, unless float32 weights would not fit.

    Also on a processor that multiplies bfloat16 faster: labels and routers belong to one precision, and those made on
    one machine would be refused on the next.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.bfloat16 if device.type == "cpu" and _too_large(4 * parameters) else torch.float32


def _load(
    source: str | Path, dtype: torch.dtype | None, device: torch.device, trust_remote_code: bool, local: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    common: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": local}
    with quiet_transformers():
        config = AutoConfig.from_pretrained(source, **common)
        if config.is_encoder_decoder:
            raise ValueError(f"{source}: expected a decoder-only model, got an encoder-decoder ({config.model_type})")
        if dtype is None:
            dtype = default_dtype(_parameters(config, trust_remote_code), device)
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, **common)
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"{source}: no tokenizer could be loaded: {error}") from error
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, use_safetensors=True, output_loading_info=True, **common
        )
    model, report = loaded
    check_complete(source, report)
    return model, tokenizer


def _parameters(config: Any, trust_remote_code: bool) -> int:
    """How many parameters a config describes, without allocating them."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    return int(model.num_parameters())


def _unpacked_parameters(gguf: Path) -> int:
    with quiet_transformers():
        try:
            config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True)
            return _parameters(config, trust_remote_code=False)
        except Exception:  # a broken file: load_gguf says what is wrong with it
            return 0


def _too_large(weight_bytes: int) -> bool:
    return bool(weight_bytes > MEMORY_SHARE * psutil.virtual_memory().available)


def _check_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found is None and dtype is None:
        return None
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype: expected float32, bfloat16 or float16, got {dtype!r}")
    return found

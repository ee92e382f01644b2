"""Whether a model is the one that was used before."""

import hashlib
import json

from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLED = 1_024
"""Values taken from each weight, evenly spaced. Training moves nearly all of them, so a few tell models apart."""

UNIMPORTANT = ("transformers_version", "dtype", "architectures")
"""Parts of a config that do not change what the model is; saving a model fills them in."""


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """A hash of config, tokenizer, chat template and a sample of every weight, wherever they were loaded from."""
    words = json.loads(tokenizer.backend_tokenizer.to_str())
    words |= {"padding": None, "truncation": None}  # left behind by the last call
    return _digest(model, words, tokenizer.chat_template)


def weights_fingerprint(model: PreTrainedModel) -> str:
    """As ``fingerprint``, of the model alone: what matters to whoever reads its tokens and not its text."""
    return _digest(model)


def _digest(model: PreTrainedModel, *parts: object) -> str:
    digest = hashlib.sha256()
    config = {
        key: value
        for key, value in model.config.to_dict().items()
        if not key.startswith("_") and key not in UNIMPORTANT
    }
    for part in (type(model).__name__, config, *parts):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    for name, weight in model.state_dict().items():
        values = weight.flatten()[:: max(1, weight.numel() // SAMPLED)]
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(values.double().cpu().numpy().tobytes())
    return digest.hexdigest()

"""keepset finds the context a language model's answer depends on, and keeps only that."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepset.explain.explanation import explain
    from keepset.jobs.runner import label
    from keepset.jobs.training import train
    from keepset.models.loading import load_model
    from keepset.pruning.context import PrunedContext
    from keepset.pruning.pruner import Pruner

__all__ = ["PrunedContext", "Pruner", "explain", "label", "load_model", "train"]

_HOMES = {
    "PrunedContext": "keepset.pruning.context",
    "Pruner": "keepset.pruning.pruner",
    "explain": "keepset.explain.explanation",
    "label": "keepset.jobs.runner",
    "load_model": "keepset.models.loading",
    "train": "keepset.jobs.training",
}


def __getattr__(name: str) -> Any:
    # On first use: importing keepset must not import torch, which reading results does not need.
    if name not in _HOMES:
        raise AttributeError(f"module 'keepset' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

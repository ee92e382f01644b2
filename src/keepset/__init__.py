"""keepset finds the context a language model's answer depends on, and keeps only that."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from keepset.lazily import on_first_use

if TYPE_CHECKING:
    from keepset.compression import Compressed, Compressor, compress
    from keepset.explain import explain
    from keepset.jobs.label_data import label
    from keepset.jobs.training import train
    from keepset.models.loading import load_model
    from keepset.policies import POLICIES
    from keepset.pruning.budget import Budget
    from keepset.pruning.context import PrunedContext
    from keepset.pruning.pruner import Pruner
    from keepset.readouts import READOUTS
    from keepset.routers.block import BlockRouter

__all__ = [
    "POLICIES",
    "READOUTS",
    "BlockRouter",
    "Budget",
    "Compressed",
    "Compressor",
    "PrunedContext",
    "Pruner",
    "__version__",
    "compress",
    "explain",
    "label",
    "load_model",
    "train",
]

__version__ = version("keepset")

_HOMES = {
    "POLICIES": "keepset.policies",
    "READOUTS": "keepset.readouts",
    "BlockRouter": "keepset.routers.block",
    "Budget": "keepset.pruning.budget",
    "Compressed": "keepset.compression",
    "Compressor": "keepset.compression",
    "PrunedContext": "keepset.pruning.context",
    "Pruner": "keepset.pruning.pruner",
    "compress": "keepset.compression",
    "explain": "keepset.explain",
    "label": "keepset.jobs.label_data",
    "load_model": "keepset.models.loading",
    "train": "keepset.jobs.training",
}

# Importing keepset must not import torch, which reading results does not need.
__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__

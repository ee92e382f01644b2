"""``import keepset``: what a user finds, and nothing else."""

import inspect
import subprocess
import sys
from importlib.metadata import version

import keepset
from keepset.compression import Compressed, Compressor, compress
from keepset.explain.explanation import explain
from keepset.jobs import label
from keepset.jobs.training import train
from keepset.models.loading import load_model
from keepset.policies import POLICIES
from keepset.pruning import Budget, PrunedContext, Pruner
from keepset.readouts import READOUTS
from keepset.routers import BlockRouter

NAMES = {
    "load_model": load_model,
    "label": label,
    "train": train,
    "Pruner": Pruner,
    "PrunedContext": PrunedContext,
    "Budget": Budget,
    "Compressed": Compressed,
    "Compressor": Compressor,
    "compress": compress,
    "POLICIES": POLICIES,
    "READOUTS": READOUTS,
    "BlockRouter": BlockRouter,
    "__version__": version("keepset"),
}


def test_the_names_are_there_and_no_others() -> None:
    assert set(dir(keepset)) == {*NAMES, "explain"}
    for name, value in NAMES.items():
        assert getattr(keepset, name) is value or getattr(keepset, name) == value
    assert callable(keepset.explain)
    assert "question" in inspect.signature(explain).parameters


def test_a_wrong_name_is_an_attribute_error() -> None:
    assert not hasattr(keepset, "Prunner")


def test_looking_around_does_not_load_torch() -> None:
    code = "import sys, keepset; dir(keepset); keepset.__version__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

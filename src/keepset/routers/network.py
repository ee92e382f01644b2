"""What every saved router shares: how it is written, and what it refuses to load."""

from abc import ABC, abstractmethod
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import ModelCard, PyTorchModelHubMixin
from pydantic import BaseModel
from safetensors import SafetensorError
from torch import nn

from keepset.files import read_record, replacing_folder, sha256, write_json, writing_tensors

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
OWN_FILES = {WEIGHTS, CONFIG, "README.md"}

CARD = """---
library_name: keepset
---
# A router of keepset

Ranks the blocks of a document by how much answers would rest on them, so that the rest can be dropped. It reads with
the first layers of one model and refuses every other.

| | |
|---|---|
{rows}
"""

C = TypeVar("C", bound=BaseModel)
S = TypeVar("S", bound="SavedNetwork")


class SavedNetwork(nn.Module, PyTorchModelHubMixin, ABC):
    """Weights with a config that vouches for them. Subclasses say in ``config`` what they were built with."""

    @abstractmethod
    def config(self, weights_sha256: str) -> BaseModel:
        """What goes beside the weights."""

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        """Weights and config, complete or not at all. Replaces an earlier router, and nothing else."""
        folder = Path(save_directory)
        check_replaceable(folder)
        with replacing_folder(folder) as temporary, writing_tensors(folder / WEIGHTS):
            address: str | None = super().save_pretrained(temporary, **kwargs)
        return address

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """What the config says; the hub's own card is blanks for somebody to fill in."""
        said = self.config("").model_dump(mode="json", exclude={"weights_sha256"})
        said |= {"reads": said["reads"]["name"]}
        rows = "\n".join(f"| {name} | {value} |" for name, value in said.items())
        return ModelCard(CARD.format(rows=rows))

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        config = self.config(sha256(save_directory / WEIGHTS))
        write_json(save_directory / CONFIG, config.model_dump(mode="json"))


def check_replaceable(folder: Path) -> None:
    """Only a router may be replaced by a router."""
    foreign = sorted({path.name for path in folder.glob("*")} - OWN_FILES)
    if foreign:
        raise ValueError(
            f"{folder}: expected a new folder or one that holds only a router, got {', '.join(foreign[:3])}; "
            "saving replaces the folder: choose another one"
        )


def load_network(folder: Path, network: type[S]) -> S:
    """The weights in ``folder`` as a ``network``."""
    try:
        with redirect_stdout(StringIO()):  # the hub's mixin prints that it loads, among what a command prints
            return network.from_pretrained(folder, local_files_only=True)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{folder}: the weights cannot be read ({error}); train the router again") from error


def check_weights(folder: Path, expected: str) -> None:
    """The weights are those the config was written for."""
    found = sha256(folder / WEIGHTS) if (folder / WEIGHTS).is_file() else "no file"
    if found != expected:
        raise ValueError(
            f"{folder} is damaged: expected {WEIGHTS} with sha256 {expected[:12]}, got {found[:12]}; "
            "train the router again"
        )


def read_config(folder: Path, kind: type[C]) -> C:
    """What ``folder`` says about its router."""
    path = folder / CONFIG
    if not path.is_file():
        raise ValueError(f"{folder}: expected a saved router ({CONFIG} and {WEIGHTS}), got no {CONFIG}")
    try:
        return read_record(path, kind, "the config of a saved router")
    except ValueError as error:
        raise ValueError(f"{error}; if an older keepset saved it, train it again") from error

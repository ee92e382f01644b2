"""Trains the router in the package: ``python -m keepset.paper.natural.ship FOLDER``, with SQuAD and QASPER in it."""

import sys
from pathlib import Path

import torch

from keepset.compression.compressor import SHIPPED
from keepset.files import write_text
from keepset.paper.natural.corpus import SETTINGS, lessons, reads
from keepset.paper.natural.training import Training, train_text_router

CARD = "README.md"


def ship(data: Path, folder: Path = SHIPPED, scale: str = "small") -> None:
    """Weights and config; the model card, which is written by hand, stays."""
    card = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).exists() else None
    router = train_text_router(reads(scale), SETTINGS[scale].layers, lessons(scale, data), Training())
    router.save_pretrained(folder)
    if card is not None:
        write_text(folder / CARD, card)


if __name__ == "__main__":
    torch.set_num_threads(1)
    ship(Path(sys.argv[1]))

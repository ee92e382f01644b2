"""A compressor whose reader and router are untrained: the same code in milliseconds."""

from functools import cache
from pathlib import Path

import torch

from keepset.compression import Compressor
from keepset.paper.bench.models import tiny_model
from keepset.routers.block import ReadModel
from keepset.routers.text import TextRouter

TEXT = (
    "Harbour notes\n\nThe pier was rebuilt in 1931. Dr. Vane ran it until the war! Nobody knows who paid.\n\n"
    "Later years\n\nIt burned down in 1944. The fort beside it stands. Visitors come in June; they pay 3 crowns."
)


@cache
def tiny_router() -> TextRouter:
    model, _ = tiny_model()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return TextRouter(ReadModel.of(model), 1, "sentence", 0.5, 0.0).eval()


@cache
def tiny_compressor() -> Compressor:
    compressor = Compressor(tiny_router())
    compressor.__dict__["loaded"] = tiny_model()
    return compressor


def save_reader(folder: Path) -> Path:
    model, tokenizer = tiny_model()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

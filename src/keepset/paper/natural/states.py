"""What the reader sees of every document, read once and kept on disk: training then takes seconds.

    CACHE/features/smollm2-135m-instruct-0a1b2c3d-layer10/qasper-2001.01234-4e5f6a7b.safetensors
        states (T, D) float16   places (T, 2) characters of each token   asked (Q, D)   asked_lengths (questions,)

One file per document with its questions; a run that was stopped goes on with the next file. The names hold hashes of
the reader's weights and of what was read: another text under the same id is read anew.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keepset.files import replacing_file, writing_tensors
from keepset.models.bundled import cache_folder
from keepset.models.fingerprint import weights_fingerprint
from keepset.paper.bench.models import loaded
from keepset.routers.reading import read_short, read_states, sink_token
from keepset.text.prompt import encode

BATCH = 32
"""Questions read together."""
DIGITS = 8
"""Of a hash in a name."""


@dataclass(frozen=True)
class Source:
    """A document and everything asked about it."""

    id: str
    text: str
    questions: tuple[str, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.text, self.questions]).encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True, eq=False)
class Seen:
    """A document as the reader sees it."""

    states: Tensor
    """(T, D) float16"""
    places: Tensor
    """(T, 2) characters of each token."""
    questions: tuple[Tensor, ...]
    """(Q, D) float16 each, in the order of the source."""


@dataclass(frozen=True)
class Reader:
    """A model of which the first ``layers`` layers read."""

    name: str
    layers: int

    @property
    def folder(self) -> Path:
        return cache_folder() / "features" / f"{self.name}-{_weights(self.name)}-layer{self.layers}"

    def path(self, source: Source) -> Path:
        return self.folder / f"{source.id}-{source.digest}.safetensors"

    def see(self, source: Source) -> Seen:
        """From disk, or read now and kept."""
        path = self.path(source)
        if not path.exists():
            model, tokenizer = loaded(self.name)
            found = _read(model, tokenizer, source, self.layers)
            with replacing_file(path) as temporary, writing_tensors(path):
                save_file(found, temporary)
        tensors = load_file(path)
        asked = tensors["asked"].split(tensors["asked_lengths"].tolist())
        return Seen(tensors["states"], tensors["places"], tuple(asked))


@lru_cache(maxsize=1)
def _weights(reader: str) -> str:
    return weights_fingerprint(loaded(reader)[0])[:DIGITS]


def _read(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: Source, layers: int) -> dict[str, Tensor]:
    sink = sink_token(tokenizer)
    tokens, places = encode(tokenizer, source.text)
    asked = [encode(tokenizer, question)[0] for question in source.questions]
    read = _read_questions(model, asked, layers, sink)
    return {
        "states": read_states(model, tokens, layers, sink).half(),
        "places": torch.tensor(places),
        "asked": torch.cat(read).half() if read else torch.zeros(0, model.config.hidden_size).half(),
        "asked_lengths": torch.tensor([len(question) for question in asked], dtype=torch.long),
    }


def _read_questions(model: PreTrainedModel, asked: Sequence[Sequence[int]], layers: int, sink: int) -> list[Tensor]:
    order = sorted(range(len(asked)), key=lambda i: len(asked[i]))
    found: dict[int, Tensor] = {}
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        found |= zip(rows, read_short(model, [asked[i] for i in rows], layers, sink), strict=True)
    return [found[i] for i in range(len(asked))]

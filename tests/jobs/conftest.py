"""A model that costs nothing, and rows to label with it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from keepset.jobs.labelling import Loaded
from keepset.paper.bench.models import tiny_model

Write = Callable[..., Path]


def row(i: int, **changes: object) -> dict[str, object]:
    return {
        "context": f"The code for NARO is {4000 + i}.\n\nThe code for BELU is 42.\n\nNobody is hére, ☃{i}.",
        "question": "What is the code for BELU?",
        "answer": "42",
    } | changes


@pytest.fixture(scope="session")
def tiny() -> Loaded:
    return tiny_model()


@pytest.fixture(scope="session")
def sharp() -> Loaded:
    """Untrained too, but sure of itself and of where it looks: what it says changes with what it sees."""
    model, tokenizer = tiny_model()
    with torch.no_grad():
        model.lm_head.weight *= 20
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 20
    return model, tokenizer


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows (objects, or bytes as they are) to a JSONL file."""

    def write_rows(*rows: object, name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        lines = [found if isinstance(found, bytes) else json.dumps(found).encode() for found in rows]
        path.write_bytes(b"".join(found + b"\n" for found in lines))
        return path

    return write_rows

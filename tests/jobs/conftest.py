"""Models that cost nothing, rows to label and texts to make short with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from keepset.jobs import Finished, compress_data
from keepset.jobs.labelling import Loaded
from keepset.paper.bench.models import tiny_model
from tests.jobs.compress_work import BUDGET, Compress, text
from tests.tiny_compressor import save_reader, tiny_router

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


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_reader(tmp_path_factory.mktemp("reader")))


@pytest.fixture
def compress(reader: str) -> Compress:
    def run(data: Path, out: Path, **options: Any) -> Finished:
        return compress_data(data, out, **({"budget": BUDGET} | options), router=tiny_router(), reader=reader)

    return run


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """21 texts in three folders, and one file that is none."""
    folder = tmp_path / "reports"
    for i in range(21):
        path = folder / ("", "2023", "2023/late")[i % 3] / f"{i:02d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(i), encoding="utf-8")
    (folder / "scan.pdf").write_bytes(b"%PDF-1.4\xff\xfe")
    return folder

"""Texts to make short, and where those that could not be are named."""

import json
from collections.abc import Callable
from pathlib import Path

from keepset.jobs import Finished
from tests.tiny_compressor import TEXT

Compress = Callable[..., Finished]
BUDGET = 0.4


def text(i: int) -> str:
    return TEXT.replace("1931", f"{1900 + i}")


def rejects(folder: Path) -> dict[str, str]:
    found = [json.loads(line) for line in (folder / "rejects.jsonl").read_bytes().splitlines()]
    return {reject["row"]["id"]: reject["reason"] for reject in found}

"""Writing to disk so that a crash leaves the old file or the new one, never half of one."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends well, and vanishes otherwise.

    A folder cannot be renamed over a full one, so an old ``target`` steps aside first and comes back on failure.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    aside = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                _flush(path)
        temporary.chmod(0o755)
        if target.exists():
            os.replace(target, aside)
        os.replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary file that becomes ``path`` when the block ends well, and vanishes otherwise.

    Its name is fixed, so that what a kill leaves behind is overwritten by the next attempt.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` through a temporary file and a rename."""
    with replacing_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

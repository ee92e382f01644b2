"""Writing to disk so that a crash leaves the old file or the new one, never half of one."""

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


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


def read_json(path: Path, expected: str) -> Any:
    """What a JSON file holds; ``expected`` says in the error what should have been there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path}: expected {expected}, got JSON nested too deeply") from error
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise ValueError(f"{path}: expected {expected}, got something else: {error}") from error


def read_record(path: Path, kind: type[M], expected: str) -> M:
    """What a JSON file holds, as a ``kind``; the error names the fields that are wrong."""
    try:
        return kind.model_validate(read_json(path, expected))
    except ValidationError as error:
        wrong = {".".join(map(str, found["loc"])) or "the whole": found["msg"] for found in error.errors()}
        said = "; ".join(f"{field}: {message}" for field, message in list(wrong.items())[:3])
        raise ValueError(f"{path}: expected {expected}, got something else ({said})") from error


def check_output(path: Path, folder: bool = False) -> None:
    """Raises ValueError unless a file (or a folder) can be written to ``path``: before the work, not after it.

    Missing folders above it are made later inside the working folder alone: elsewhere a missing one is more likely a
    typing error, or another machine's path.
    """
    absolute = Path(os.path.abspath(path))
    if absolute.is_dir() and not folder:
        raise ValueError(f"{path}: expected a file to write, got a folder; add a file name")
    if absolute.exists() and not absolute.is_dir() and (folder or not absolute.is_file()):
        got = "a file" if absolute.is_file() else "a device"
        raise ValueError(f"{path}: expected a new {'folder' if folder else 'file'}, got {got}; choose another name")
    there = next((parent for parent in absolute.parents if os.path.lexists(parent)), absolute)
    if not there.is_dir():
        raise ValueError(f"{path}: expected {there} to be a folder, got something else; choose another place")
    if there != absolute.parent and not there.resolve().is_relative_to(Path.cwd()):
        raise ValueError(
            f"{path}: expected the folder {absolute.parent} to exist (only inside the working folder is it made); "
            f"create it first: mkdir -p {shlex.quote(str(absolute.parent))}"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{path}: expected a folder that can be written to, got {there}, which cannot")


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

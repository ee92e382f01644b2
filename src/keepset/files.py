"""Writing to disk so that a crash leaves the old file or the new one, never half of one, and never somebody else's.

Temporary names are hidden, exclusive and say whose they are (``.name.host-process-random.tmp``): what a kill leaves
behind is cleared away by the next write to the same name, and what another process is writing is left alone.
"""

import ctypes
import errno
import gzip
import hashlib
import json
import os
import platform
import re
import secrets
import shlex
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import psutil
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError

M = TypeVar("M", bound=BaseModel)
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Fails on a symbolic link; Windows has no such flag."""
OWNER = re.compile(r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.(tmp|old)$")
"""End of a temporary name: host, process, random."""
FOREIGN_AGE = 86_400.0
"""Seconds after which what another host has left behind counts as left over: its processes cannot be asked."""

LONGEST_NAME = 200
"""Bytes of a name that stay in the temporary one: file systems take 255 in all."""

AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""For ``renameat2`` of Linux."""


class Frozen(BaseModel):
    """What is written to files and read back: no field changes, and an unknown one is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends well, and vanishes otherwise.

    Old and new change places in one step where the system can. Elsewhere the old one steps aside first; killed in
    between, the next call puts it back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(target.parent, target.name)
    temporary = _temporary(target)
    temporary.mkdir()
    aside = temporary.with_suffix(".old")
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                _flush(path)
        if not target.exists():
            os.replace(temporary, target)
        elif not exchange(temporary, target):
            os.replace(target, aside)
            os.replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        raise
    for old in (temporary, aside):
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary file that becomes ``path`` when the block ends well, and vanishes otherwise.

    A symbolic link at ``path`` is replaced; what it points to stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(path.parent, path.name)
    with writing_file(path) as temporary:
        yield temporary


@contextmanager
def writing_file(path: Path) -> Iterator[Path]:
    """The same without clearing up, which looks through the whole folder: for many files, after ``clear_leftovers``."""
    temporary = _temporary(path)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_FOLLOW, 0o666))
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def writing_tensors(path: Path) -> Iterator[None]:
    """Inside, what safetensors makes of a full disk is an OSError, as everywhere; ``path`` is what was asked for."""
    try:
        yield
    except SafetensorError as error:
        number = errno.ENOSPC if "No space left" in str(error) else errno.EIO
        raise OSError(number, f"{path} cannot be written, and nothing was kept: {error}") from error


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes left of ``name`` (of everything, without one); an old folder comes back."""
    for path in folder.glob(".*"):
        owner = OWNER.search(path.name)
        if owner is None or not _left_over(path, owner):
            continue
        short = path.name[1 : owner.start()]
        if name is not None and short != _short(name):
            continue
        target = path.with_name(name or short)
        if owner[3] == "old" and not target.exists():
            os.replace(path, target)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def exchange(one: Path, other: Path) -> bool:
    """Lets two paths change places in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):  # an old kernel, or a file system without it
        return False
    raise OSError(number, os.strerror(number), str(other))


def open_appending(path: Path) -> BinaryIO:
    """For bytes at the end of ``path``, which is made where it is missing; a symbolic link is refused."""
    refuse_link(path)
    return os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | NO_FOLLOW, 0o666), "ab")


def refuse_link(path: Path) -> None:
    """A link would send what is written here somewhere else, and a pipe would wait for somebody to read it."""
    if path.is_symlink():
        raise ValueError(
            f"{path}: expected a file or folder of its own, got a symbolic link to {os.readlink(path)}; remove the link"
        )
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"{path}: expected a file or folder of its own, got a device or a pipe; remove it")


@contextmanager
def alone_in(folder: Path, doing: str) -> Iterator[None]:
    """Inside, no other process does the same in ``folder``; ``doing`` says what that is."""
    folder.mkdir(parents=True, exist_ok=True)
    refuse_link(folder / ".lock")
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(f"{folder}: another process is {doing} here; wait for it") from error
    try:
        yield
    finally:
        lock.release()


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` through a temporary file and a rename."""
    with replacing_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path, expected: str) -> Any:
    """What a JSON file holds, or a gzip of one; ``expected`` says in the error what should have been there."""
    try:
        written = path.read_bytes()
        return json.loads((gzip.decompress(written) if path.suffix == ".gz" else written).decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path}: expected {expected}, got JSON nested too deeply") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: expected {expected}, got a gzip file that is damaged or none: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: expected {expected}, got: {error.strerror}") from error
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


def as_path(name: str, value: object) -> Path:
    """The path that somebody gave for ``name``."""
    if not isinstance(value, str | Path) or not str(value):
        got = repr(value) if isinstance(value, str) else type(value).__name__
        raise ValueError(f"{name}: expected a path, got {got}")
    return Path(value)


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


def _temporary(target: Path) -> Path:
    return target.with_name(f".{_short(target.name)}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _short(name: str) -> str:
    """``name`` as it stands in a temporary one: a long one is cut, and told from others by its hash."""
    written = name.encode("utf-8", errors="surrogateescape")
    if len(written) <= LONGEST_NAME:
        return name
    return f"{written[:LONGEST_NAME].decode('utf-8', errors='ignore')}-{hashlib.sha256(written).hexdigest()[:8]}"


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _left_over(path: Path, owner: re.Match[str]) -> bool:
    """Whoever made it is gone."""
    if owner[1] == _host():
        return not psutil.pid_exists(int(owner[2]))
    try:
        return time.time() - path.lstat().st_mtime > FOREIGN_AGE
    except FileNotFoundError:
        return False


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

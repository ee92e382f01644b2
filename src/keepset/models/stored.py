"""Whether the files of a converted model are still those that were written.

``keepset.json`` holds size, time and sha256 of every other file. Loading compares size and time, and reads a whole file
only when the time is another one; ``keepset doctor`` and ``keepset models fetch`` read every file. Models converted
before there were hashes go on working: ``keepset doctor`` notes down theirs as they are then.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict
from safetensors import SafetensorError, safe_open

from keepset.files import Frozen, read_json, read_record, sha256, write_json

RECORD = "keepset.json"
"""Written last: a folder without it is not a fetched model."""


class StoredFile(Frozen):
    """A file as it was written."""

    bytes: int
    modified_ns: int
    """Time of its last change; another one is no damage, but a reason to read the whole file."""
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "StoredFile":
        found = path.stat()
        return cls(bytes=found.st_size, modified_ns=found.st_mtime_ns, sha256=sha256(path))


class StoredModel(BaseModel):
    """What is read of ``keepset.json`` here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str | None = None
    files: dict[str, StoredFile] = {}
    """Empty where the model was converted before there were hashes."""


def stored_files(folder: Path) -> dict[str, StoredFile]:
    """Every file of a converted model but the record, read as a whole."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != RECORD)
    return {path.name: StoredFile.of(path) for path in paths}


def check_stored(folder: Path) -> None:
    """Raises ValueError when files of a converted model have changed; looks at sizes and times first.

    Folders of other origin have no record, and nothing is known about them.
    """
    if (folder / RECORD).is_file() and (found := damage(folder, thorough=False)):
        raise ValueError(f"{folder}: the model is damaged: {found}; {repair(folder)}")


def damage(folder: Path, thorough: bool) -> str | None:
    """What is wrong with a converted model; None when nothing is. ``thorough`` reads every file as a whole."""
    try:
        stored = _read(folder)
    except ValueError as error:
        return str(error)
    for name, expected in stored.files.items():
        path = folder / name
        if not path.is_file():
            return f"expected {name}, found no such file"
        found = path.stat()
        if found.st_size != expected.bytes:
            return f"expected {name} with {expected.bytes:,} bytes, got {found.st_size:,}"
        if (thorough or found.st_mtime_ns != expected.modified_ns) and (now := sha256(path)) != expected.sha256:
            return f"expected {name} with sha256 {expected.sha256[:12]}, got {now[:12]}"
    return None if stored.files else _broken_weights(folder)


def note_hashes(folder: Path) -> bool:
    """Notes down the files of a model converted before there were hashes; False when they were known already."""
    if _read(folder).files:
        return False
    record = read_json(folder / RECORD, "the record of a converted model")
    files = {name: file.model_dump() for name, file in stored_files(folder).items()}
    write_json(folder / RECORD, {**record, "files": files})
    return True


def repair(folder: Path) -> str:
    """What makes a damaged model whole again."""
    try:
        name = _read(folder).name or folder.name
    except ValueError:
        name = folder.name
    return f"get it again with: keepset models fetch {name}"


def _read(folder: Path) -> StoredModel:
    return read_record(folder / RECORD, StoredModel, "the record of a converted model")


def _broken_weights(folder: Path) -> str | None:
    """Without hashes, at least headers and lengths of the weights say whether a file was cut short."""
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            return f"{path.name} cannot be read: {error}"
    return None

